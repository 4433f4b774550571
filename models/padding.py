"""Which texts share a forward pass: sorted by length, so that little of the device's work goes into padding."""

from collections.abc import Sequence


def padded_groups(lengths: Sequence[int], budget: int, launch: int) -> list[list[int]]:
    """Indices into `lengths`, in groups, shortest texts first: the cheapest partition of the sorted texts.

    A group costs (its longest x its number) padded tokens and `launch` tokens for starting a forward pass at all. No group's
    padded tokens exceed `budget`, except that a text longer than it is a group of its own. O(n x budget / shortest) time.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    cheapest = [0.0] * (len(order) + 1)  # cost of the first i texts
    begins = [0] * (len(order) + 1)  # where the last group of that partition begins
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        cheapest[end] = float("inf")
        for begin in range(end - 1, -1, -1):
            padded = longest * (end - begin)
            if padded > budget and end - begin > 1:
                break
            cost = cheapest[begin] + padded + launch
            if cost < cheapest[end]:
                cheapest[end], begins[end] = cost, begin
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[begins[end] : end])
        end = begins[end]
    return groups[::-1]
