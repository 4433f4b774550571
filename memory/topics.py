"""Topics: what everyday subjects a text touches, in Chinese and English, by its words.

A question about dinner needs the allergy although they share no word and, to a small embedding model, little meaning. These
tables are the bridge, and the bridge between two languages. They only ever add evidence to a probability
(memory/calibration.py).
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from memory.terms import terms

# Chinese is written as terms are, by one or two characters (究生 for 研究生); Latin words become their stems.
_WORDS: Final = {
    "food": "food eat meal dinner lunch breakfast supper snack restaurant cafe recipe cook dish menu dessert cake "
    "diet vegan vegetarian meat pork seafood fish spicy allergic allergy intolerant ingredient pizza "
    "bread taste delicious cuisine chocolate cheese cheesecake takeaway canteen 餐厅 饭店 餐馆 吃饭 吃什 "
    "晚饭 午饭 早饭 晚餐 午餐 早餐 聚餐 外卖 菜谱 点菜 做菜 菜单 食物 食材 零食 火锅 吃素 素食 吃辣 忌口 "
    "不吃 过敏 口味 美食 甜点 蛋糕 面包 海鲜 清真 饮食 爱吃 能吃 想吃 么菜 肉 sushi pasta noodle rice "
    "soup curry salad steak burger egg chicken beef fruit vegetable nut peanut shellfish gluten dairy "
    "sugar ramen bakery halal kosher lactose cream brunch buffet barbecue 吃 菜 饭 鱼 虾 辣 甜 面条 米饭 "
    "寿司 烤肉 烧烤 水果 蔬菜 花生 鸡蛋 牛肉 猪肉 羊肉 做法 乳糖 坚果 麸质 烘焙",
    "drink": "drink coffee tea juice beer wine latte beverage milk 喝 咖啡 茶 饮料 奶茶 果汁 啤酒 红酒 拿铁 美式 "
    "牛奶 lactose alcohol espresso 来杯 乳糖 酒 豆浆",
    "travel": "travel trip holiday vacation flight fly plane airport hotel seat aisle window visa passport tour "
    "tourist itinerary sightseeing train hostel luggage beach 旅行 旅游 出差 机票 飞机 航班 酒店 民宿 "
    "座位 靠窗 过道 签证 护照 行程 景点 度假 火车 高铁 坐船 轮船 晕船 出行 游玩 budget stay visit crowd "
    "mountain ticket passenger abroad 预算 车票 出国 海边 山区",
    "home": "live home house apartment address move city rent landlord neighbourhood hometown 住在 住哪 家里 地址 "
    "搬家 城市 租房 房子 小区 老家 里人 个城 搬到 定居 born grow native 附近 家乡 住",
    "delivery": "deliver delivery ship shipping parcel package courier order refund return invoice 快递 发货 收货 "
    "寄到 包裹 驿站 订单 退款 退货 发票 开票 下单 物流 送货",
    "work": "work job career boss manager colleague office company employer profession salary meeting schedule "
    "deadline project team client 工作 上班 职业 老板 上司 主管 领导 同事 公司 加班 开会 会议 日程 项目 "
    "客户 岗位 工资 下班 living occupation interview resume shift nurse 面试 简历 护士",
    "study": "study school university college thesis exam course student teacher professor advisor homework lesson "
    "class learn 学校 大学 论文 考试 课程 学生 老师 导师 教授 作业 上课 学习 上学 究生 教案 教材 deadline "
    "semester 毕业 讲义 语文 数学",
    "code": "code program script function bug build deploy deployment server database sql python java javascript "
    "typescript api git editor cloud ci snippet indent framework library host 代码 编程 脚本 程序 函数 "
    "部署 上线 服务 数据 接口 编辑 框架 前端 后端 缩进 cache client web backend frontend rust docker 缓存 "
    "语言",
    "health": "health doctor medicine drug pill allergic allergy blood pressure sleep insomnia surgery knee pain "
    "weight hospital symptom antibiotic 健康 医生 药 过敏 血压 失眠 睡眠 睡得 手术 膝盖 体检 医院 减肥 "
    "减重 体重 症状 抗生 青霉 疾病 看病 fitness exercise workout run marathon injury disease diabetes "
    "asthma migraine headache sick 健身 运动 锻炼 跑步 糖尿 哮喘 感冒 头痛 疼",
    "sport": "sport run running marathon swim gym fitness exercise hike hiking trail bike bicycle ski climb "
    "football workout 跑步 游泳 健身 运动 锻炼 爬山 徒步 骑车 滑雪 马拉 打球 瑜伽 knee surgery injury "
    "weight tennis basketball yoga dance 膝盖 手术 受伤 减肥 减重 篮球 网球 羽毛",
    "family": "family son daughter child children kid wife husband mother father mom dad parent sister brother twin "
    "baby 家人 儿子 女儿 孩子 小孩 妻子 丈夫 老婆 老公 妈妈 爸爸 父母 母亲 父亲 姐姐 妹妹 哥哥 弟弟 双胞",
    "pet": "pet cat dog puppy kitten 宠物 猫 狗 橘猫 猫粮 狗粮 金毛 bird rabbit hamster vet 兔子 仓鼠 兽医",
    "money": "budget money price cost spend expensive cheap invest investment saving stock fund finance 预算 少钱 "
    "花费 价格 便宜 投资 理财 股票 基金 存款 省钱 闲钱 loan bank insurance 贷款 银行 保险",
    "clothes": "clothes shirt dress coat jacket shoe size wear outfit colour color 衣服 外套 裙子 连衣 裤子 鞋 穿 "
    "尺码 款式 颜色",
    "music": "music song concert jazz guitar piano cello violin instrument chord band 音乐 歌 演唱 演出 钢琴 吉他 "
    "乐器 爵士 弹琴",
    "screen": "movie film series cinema documentary 电影 视剧 悬疑 影片 追剧 纪录 片子",
    "device": "phone computer laptop printer toner router wifi internet keyboard android iphone app 手机 电脑 打印 "
    "路由 无线 网络 键盘 安卓 键帽",
    "vehicle": "car drive driving licence license tyre 开车 汽车 的车 驾照 保养 轮胎 bicycle bike commute train bus "
    "自行 骑车 通勤 地铁 公交",
    "account": "membership member plan subscription premium upgrade vip 会员 套餐 等级 金卡 订阅",
    "contact": "contact call email e-mail message reach 联系 电话 邮件 短信 打给",
    "birthday": "birthday gift present anniversary born 生日 礼物 出生 纪念",
    "name": "name called nickname 名字 叫什 姓名 称呼",
    "answering": "answer reply respond response concise 回答 回复 答复 简洁 简短 称呼",
    "language": "language speak german spanish italian french english chinese japanese translate 语言 德语 英语 法语 "
    "西班 日语 中文 翻译",
}

# Words of entries that limit what fits the user wherever their topic is touched: an allergy holds for every meal.
_LIMITS: Final = {
    "food": "allergic allergy intolerant intolerance vegan vegetarian pescatarian halal kosher gluten lactose "
    "diabetes diet cholesterol 过敏 不吃 能吃 吃素 素食 忌口 忌 清真 乳糖 麸质 糖尿 血压 血脂 痛风 减肥 "
    "控糖",
    "drink": "lactose alcohol caffeine 乳糖 戒酒 不喝 allergic allergy 过敏",
    "sport": "knee surgery injury asthma heart 手术 膝盖 受伤 哮喘 心脏",
}


def _lexicon(words_of: Mapping[str, str]) -> dict[str, frozenset[str]]:
    lexicon: dict[str, set[str]] = {}
    for topic, words in words_of.items():
        for word in words.split():
            for term in [word] if word[0] >= "\u3040" else terms(word):
                lexicon.setdefault(term, set()).add(topic)
    return {term: frozenset(found) for term, found in lexicon.items()}


def _turned(lexicon: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    topics = {topic for found in lexicon.values() for topic in found}
    return {topic: frozenset(term for term, found in lexicon.items() if topic in found) for topic in topics}


# Made when first asked for: importing this does no work.
@cache
def _topics_of() -> dict[str, frozenset[str]]:
    return _lexicon(_WORDS)


@cache
def _limits_of() -> dict[str, frozenset[str]]:
    return _lexicon(_LIMITS)


@cache
def _terms_of() -> dict[str, frozenset[str]]:
    return _turned(_topics_of())


@cache
def _limiting() -> dict[str, frozenset[str]]:
    return _turned(_limits_of())


def topics(of: Collection[str]) -> frozenset[str]:
    """The topics that a text touches, from its terms (memory/terms.py)."""
    return frozenset(topic for term in of for topic in _topics_of().get(term, ()))


def limits(of: Collection[str]) -> frozenset[str]:
    """The topics in which an entry says what does not fit the user, from its terms."""
    return frozenset(topic for term in of for topic in _limits_of().get(term, ()))


def touching(of: Collection[str]) -> frozenset[str]:
    """The terms of which one is enough to touch one of these topics: `topics(x)` and `of` meet where x and this do."""
    return frozenset[str]().union(*(_terms_of().get(topic, ()) for topic in of))


def limiting(of: Collection[str]) -> frozenset[str]:
    """The same for `limits`."""
    return frozenset[str]().union(*(_limiting().get(topic, ()) for topic in of))
