# ruff: noqa: E501 - a pattern is read as one line
"""Word lists of the English rules, as alternations for regular expressions."""

ADVERBS = (
    r"(?:(?:really|also|still|just|always|usually|often|mostly|now|currently|quite|absolutely|actually|personally|generally|normally|"
    r"typically|definitely|especially|particularly|truly|simply|totally|much|only|already|recently|mainly|strictly|strongly|kinda|"
    r"secretly|both|all|very much|do|tend to|sort of|kind of|even|deeply|genuinely|honestly|at present)\s+){0,4}"
)
LIKES = (
    r"(?:like|love|enjoy|adore|prefer|favou?r|am (?:really |very |quite |so |absolutely |such )?(?:fond of|keen on|into|crazy about|mad about|"
    r"nuts about|obsessed with|passionate about|a (?:huge |big |massive |real |total |lifelong )*(?:fan|lover) of|addicted to|partial to|interested in)|"
    r"have (?:always )?(?:loved|liked|enjoyed|preferred|adored)|have a (?:sweet tooth|soft spot|weakness)(?: for)?|cannot get enough of|lean towards?|gravitate towards?|tend towards?|"
    r"am (?:really )?getting into)"
)
DISLIKES = (
    r"(?:hate|dislike|detest|loathe|despise|cannot (?:really )?(?:stand|bear|tolerate|abide)|do not (?:really |particularly |actually |much |even )*(?:like|love|enjoy|"
    r"care for|fancy|want any)|never (?:really )?(?:liked|enjoyed|cared for)|am not (?:really |particularly |much )*(?:a (?:huge |big |great |real )*(?:fan|lover) of|"
    r"into|fond of|keen on|interested in)|am (?:sick|tired) of|have (?:always )?(?:hated|disliked)|have never liked|no longer (?:like|love|enjoy|prefer|care for)|"
    r"have gone off|went off|am no longer (?:into|a fan of|fond of|keen on)|avoid)"
)
LANGUAGES = (
    r"(?:English|Spanish|French|German|Italian|Portuguese|Chinese|Mandarin|Cantonese|Japanese|Korean|Arabic|Russian|Polish|Dutch|Turkish|"
    r"Gaelic|Afrikaans|Tagalog|Nepali|Punjabi|Serbian|Croatian|Bulgarian|Slovak|Lithuanian|Hindi|Urdu|Bengali|Tamil|Swedish|Norwegian|Danish|Finnish|Greek|Hebrew|Czech|Hungarian|Ukrainian|Romanian|Vietnamese|Thai|"
    r"Indonesian|Malay|Swahili|Persian|Farsi|Catalan|Irish|Welsh|Latin|Esperanto|sign language)"
)
DIETS = (
    r"(?:(?:strict |mostly )?(?:vegetarian|vegan|pescatarian|flexitarian|carnivore|veggie|plant-based)|gluten[- ]free|dairy[- ]free|"
    r"lactose[- ]intolerant|gluten[- ]intolerant|halal|kosher|keto|paleo|teetotal|sugar[- ]free)"
)
HEALTH = (
    r"(?:diabetic|asthmatic|coeliac|celiac|epileptic|colou?r[- ]?blind|deaf|blind|dyslexic|autistic|pregnant|anaemic|anemic|hard of hearing|"
    r"hypertensive|near-?sighted|short-?sighted|far-?sighted|disabled|claustrophobic|insomniac)"
)
CONDITIONS = (
    r"(?:(?:type [12] |chronic |severe |mild |bad |seasonal |high |low )*(?:diabetes|asthma|epilepsy|arthritis|migraines?|hypertension|blood pressure|cholesterol|"
    r"adhd|dyslexia|autism|anxiety|depression|insomnia|coeliac disease|celiac disease|ibs|hay fever|eczema|psoriasis|back pain|"
    r"an? (?:\w+ ){0,2}(?:injury|disability)|a (?:heart condition|pacemaker|bad back|bad knee|hearing aid|peanut allergy|nut allergy)))"
)
RELATIVES = (
    r"(?:(?:older |elder |younger |little |big |eldest |youngest |oldest |twin |late |ex-|step|grand|middle )*(?:wife|husband|partner|fianc[eé]e?|girlfriend|boyfriend|spouse|son|daughter|"
    r"kid|child|baby|mother|father|mum|mom|dad|sister|brother|parents|children|kids|sons|daughters|twins|grandma|grandpa|grandmother|grandfather|"
    r"niece|nephew|aunt|uncle|cousin|boys|girls|boy|girl|siblings?|brothers|sisters))"
)
PETS = r"(?:dogs?|cats?|pupp(?:y|ies)|kittens?|rabbits?|hamsters?|parrots?|budgies?|horses?|pon(?:y|ies)|tortoises?|turtles?|fish|goldfish|snakes?|ferrets?|guinea pigs?|beagles?|labradors?|poodles?|terriers?|retrievers?|corgis?|huskys?|huskies|dachshunds?|bulldogs?|shibas?|shih tzus?|pugs?|collies?|boxers?|spaniels?|chickens?|pets?|bunny|gecko)"
OCCUPATIONS = (
    r"(?:[\w\-]*(?:engineer|developer|programmer|designer|teacher|doctor|nurse|lawyer|accountant|architect|manager|analyst|scientist|researcher|"
    r"consultant|student|professor|lecturer|writer|author|journalist|editor|translator|photographer|artist|musician|actor|actress|chef|cook|baker|"
    r"barista|waiter|waitress|bartender|driver|pilot|mechanic|electrician|plumber|carpenter|builder|farmer|gardener|dentist|pharmacist|"
    r"surgeon|vet|veterinarian|psychologist|therapist|physiotherapist|paramedic|midwife|firefighter|police officer|officer|soldier|"
    r"librarian|secretary|receptionist|assistant|administrator|clerk|cashier|salesperson|salesman|saleswoman|realtor|estate agent|broker|banker|trader|"
    r"economist|statistician|mathematician|physicist|chemist|biologist|geologist|historian|philosopher|tutor|coach|trainer|freelancer|"
    r"entrepreneur|founder|director|executive|supervisor|technician|operator|welder|tailor|hairdresser|barber|beautician|model|dancer|"
    r"singer|composer|producer|filmmaker|youtuber|streamer|blogger|copywriter|marketer|recruiter|intern|trainee|apprentice|contractor|"
    r"judge|solicitor|barrister|paralegal|notary|civil servant|diplomat|politician|priest|pastor|imam|rabbi|monk|nun|sailor|fisherman|"
    r"miner|courier|postman|cleaner|nanny|carer|caregiver|social worker|homemaker|housewife|househusband|stay-at-home (?:mum|mom|dad|parent)|"
    r"sysadmin|devops|pensioner|optician|radiologist|cardiologist|paediatrician|pediatrician|psychiatrist|anaesthetist|sculptor|potter|jeweller|florist|butcher|undergrad|undergraduate|postdoc|phd student|flight attendant|business owner|shop owner|teaching assistant|data scientist|sommelier|tour guide|interpreter|auditor|actuary|planner|stylist|animator|illustrator|landlord|principal|headteacher|nutritionist|dietitian|curator))"
)
NATIONALITIES = (
    r"(?:American|British|English|Scottish|Welsh|Irish|French|German|Italian|Spanish|Portuguese|Dutch|Belgian|Swiss|Austrian|Swedish|"
    r"Norwegian|Danish|Finnish|Polish|Czech|Hungarian|Romanian|Bulgarian|Greek|Turkish|Russian|Ukrainian|Chinese|Japanese|Korean|"
    r"Indian|Pakistani|Bangladeshi|Vietnamese|Thai|Indonesian|Malaysian|Filipino|Singaporean|Australian|Canadian|Mexican|Brazilian|"
    r"Argentinian|Chilean|Colombian|Peruvian|Egyptian|Moroccan|Nigerian|Kenyan|South African|Ethiopian|Israeli|Iranian|Iraqi|Lebanese|"
    r"Syrian|Saudi|Muslim|Christian|Catholic|Jewish|Hindu|Buddhist|Sikh|atheist)"
)
OWN_NOUNS = (
    r"(?:(?:home |work |personal |mobile |cell |office |shipping |billing |delivery |postal |mailing |street |main |current |new |preferred |daily |primary |backup |native |first |second |company |"
    r"shoe |shirt |dress |ring |clothing |blood |time |membership |loyalty |job |operating |emergency |marital |dietary |email |phone |e-mail |travel |monthly |weekly )*"
    r"(?:address|email|e-mail|phone|phone number|number|mobile|landline|zip code|postcode|time ?zone|zone|size|height|weight|blood type|type|hometown|nationality|major|"
    r"hobby|hobbies|company|employer|boss|budget|membership|membership level|level|tier|status|car|bike|laptop|computer|pc|mac|tablet|"
    r"router|printer|camera|watch|headphones|monitor|keyboard|os|system|browser|editor|ide|gpu|star sign|zodiac sign|religion|title|profession|occupation|job|"
    r"language|mother tongue|tongue|pronouns|handle|username|nickname|surname|doctor|dentist|bank|insurance|landlord|contact|airline|diet|"
    r"twitter|instagram|wechat|github|website|licence plate|license plate|number plate|university|school|degree|salary|commute|lease|goal|project|stack|team))"
)
IMPERATIVES = (
    r"(?:translate|write|show|tell|give|help|make|find|book|order|explain|summari[sz]e|list|create|generate|draft|search|look|check|fix|"
    r"send|call|open|play|set|add|remove|delete|change|update|rewrite|rephrase|shorten|continue|stop|go|try|run|compare|recommend|"
    r"suggest|describe|convert|calculate|compute|solve|plan|schedule|remind|read|print|format|improve|proofread|edit|cancel|buy|"
    r"repeat|retry|wait|hold|start|answer|reply|respond|use|do|let|keep|put|turn|design|build|implement|refactor|test|debug|review|analy[sz]e|pick|choose|pretend|see|come|take|think|say|ask|act|forget|consider|provide|walk|teach|draw|sort)"
)
