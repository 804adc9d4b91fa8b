"""What the lexical judge knows of English, German and French: words that say little, and words that say the same.

A concept stands for words that mean about the same, in all languages; `-` before a word says that it denies the
concept ("rejected" is "approve" with another sign). `*` ends the beginning of a word. The lists hold common words of
rules, contracts, manuals and reports; what is missing costs certainty, not correctness. Pure.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

LANGUAGES = ("en", "de", "fr")


class Meaning(NamedTuple):
    concept: str
    denies: bool


# Of each concept its name, then its words in English, German and French; an indented line goes on.
_CONCEPTS = """
approve | approv* adopt* accept* pass passed -reject* -refus* -declin* -dismiss* -turned_down | angenommen annehm*
    zustimm* stimmte_zu genehmig* billig* beschloss* beschliess* bewillig* verabschied* stimmte stimmten stimmt
    -lehnte -lehnten -lehnt -ablehn* -abgelehn* -zuruckgewies* -zuruckweis* -verworfen | approuv* adopt* accept*
    retenu* valid* -rejet* -refus* -repouss* -ecart*
permit | allow* permit* authoris* authoriz* legal* -prohibit* -forbid* -forbidden -ban -banned | erlaub* gestatt*
    zulass* zugelass* erlaubnis -verbot* -verbiet* -untersag* -unzulass* | autoris* permet* permis* possible*
    -interdi* -defend*
consent | consent* agre* permission approval | einwillig* einverstand* zustimm* erlaubnis genehmigung* | accord*
    consent* permission autorisation
cover | cover* insur* reimburs* paid_for pay_for -exclu* | versicher* mitversicher* gedeckt deckung* erstatt*
    eingeschloss* -ausgenommen -ausgeschloss* -ausschluss* | couv* garanti* assur* rembours* -exclu*
open | open* -clos* -shut | geoffnet offnet eroffn* offnen -geschlossen -geschlossene -geschlossener | ouv* rouvr*
    -ferm*
stop | -stop* -ceas* -suspend* -shut | -eingestellt -einstell* -stoppt* -anhalt* | -arret* -suspend* -cess*
reserve | reserv* book booked booking* | reservier* buch buchbar vorgemerk* vormerk* | reserv*
postpone | postpon* adjourn* defer* deferred undecided not_yet_decided | vertagt* verschob* aufgeschob*
    noch_nicht_entschieden | report* ajourn* differ*
attend | attend* present presence -apolog* -absent* | teilgenommen teilnahm* anwesend* -entschuldigt* -abwesend* |
    present* assist* -excus* -absent*
participate | participa* enrol* enroll* took_part take_part subject* | teilnahm* teilnehm* teilgenommen nahmen_teil
    proband* | particip* suiv* portait
exceed | -exceed* -above -over_the_limit | -uberschreit* -uberschritt* -ubersteig* | -depass* -exced*
rise | rise rises rose risen increas* grew grow* gain* higher more -fall -fell -fallen -falls -decreas* -drop*
    -declin* -reduc* -lower -less -fewer | steig* stieg* gestieg* wachs* wuchs* gewachs* erhoh* zunahm* zunehm*
    zugenomm* hoher mehr -sank -sink* -gesunk* -fiel -gefall* -verringer* -reduz* -senk* -weniger -niedriger -zuruck |
    augment* hausse* accru* superieur* davantage -baiss* -dimin* -redui* -reduct* -moins -inferieur*
improve | improv* better -worse* -worsen* -deteriorat* | verbesser* besser* -verschlechter* -schlechter* | amelior*
    meilleur* mieux -pire* -degrad* -deterior*
profit | profit* gain -loss -losses -deficit | gewinn* -verlust* -defizit* | benefice* -perte -pertes -deficit*
enough | enough sufficient* -lack* -shortage -missing | genug genugend ausreich* -mangel* -fehlt -fehlen | assez
    suffis* -manqu* -penurie
include | includ* part_of comprise* contain* | enthalt* enthalten einschliess* inbegriff* gehor* lieferumfang | inclu*
    compr* contien* contenir
required | requir* requirement* mandatory compulsory obligatory necessary need needs -optional -voluntary |
    erforderlich* notwendig* pflicht* vorgeschrieben -freiwillig* -optional* | obligatoire* requis* necessaire* exig*
    -facultati* -volontaire*
acquire | acquir* bought buy buys purchas* took_over takeover acquisition | erwarb* erworben kauft* kaufen gekauft
    ubernahm* ubernomm* ubernahme | acquis* acquer* achet* rachet* rachat
found | founded founder founders establish* creat* | grundet* gegrundet* grundung* | fond* cree creee creation
lead | led lead leads leader head headed direct* chair* presid* | leit* geleitet* fuhrt* gefuhrt vorsitz* | dirig*
    direct* presid* mene menee
succeed | succeed* successor replac* | nachfolg* folgt folgte folgen ersetz* | succed* rempla* successeur
decide | decid* decision* | entschied* entscheid* | decid* decision*
propose | propos* request* motion suggest* | antrag* beantrag* vorschlag* vorgeschlag* | propos* demand* suggest*
begin | begin* began start started starts effective enter* appl* valid | beginn* gilt gelten gultig* startet* inkraft*
    tritt | commenc* debut* entr* appli* vigueur valable*
end | end ends ended terminat* expir* lapse* finish* over cancel* | end* beend* ablauf* kundig* verfall* | fin finit
    termin* resili* expir*
pay | pay* paid settle* bear bears cost costs charge | zahl* bezahl* gezahlt entricht* trag* tragt kosten kostet*
    ubernimmt | pay* paie* vers* regl* cout* finance*
price | price* cost costs fee fees amount* | preis* kosten kostet* betrag* gebuhr* | prix cout* montant* tarif*
rent | rent rents rental | miete* mieten* monatsmiet* mietzins* | loyer*
party | party parties | partei* | partie parties
tenant | tenant* lessee* renter* | mieter* pachter* | locatair* preneur*
landlord | landlord* lessor* | vermieter* | bailleur* proprietair*
deposit | deposit* | kaution* | depot
sublet | sublet* | untervermiet* | sous-location* sous-lou*
lease | lease* tenancy agreement* contract* | vertrag* mietvertrag* vereinbarung* betriebsvereinbarung* | bail
    contrat* accord*
excess | excess deductible* | selbstbeteiligung* selbstbehalt* | franchise*
claim | claim* | schadensfall* anspruch* | sinistre* reclam*
damage | damag* harm* | schad* beschadig* | dommage* degat*
theft | theft* stolen steal* | diebstahl* gestohlen | vol vole volee
report | report* notif* inform* declar* | meld* gemeldet anzeig* mitteil* | signal* declar* inform* notifi* plainte
send | send* sent submit* forward* transmit* | send* gesendet schick* ubermittel* weiterleit* | envoy* transmet*
    transmis*
transfer | transfer* pass_on passed_on disclos* shar* | weitergab* weitergeb* weitergegeb* ubermittl* | transfer*
    communiqu* transmi* partag*
delete | delet* eras* remov* | losch* geloscht* entfern* | supprim* efface* retir*
keep | keep keeps kept retain* stor* sav* | speicher* gespeichert aufbewahr* behalt* halten | conserv* gard* stock*
backup | backup* backups backed_up | sicherung* backup* datensicherung* | sauvegard*
employee | employ* staff worker* personnel | beschaftigt* mitarbeit* angestellt* arbeitnehm* | salarie* employe*
    personnel
employer | employer* | arbeitgeber* | employeur*
trainee | trainee* apprentic* intern interns | auszubild* azubi* praktikant* | stagiair* apprenti*
manager | manager* supervisor* superior* boss | fuhrungskraft* vorgesetzt* | responsable* superieur
leave | leave holiday* vacation* | urlaub* | conge* vacances
overtime | overtime | uberstund* mehrarbeit | heures_supplementaires
remote | remote* telework* home_office | mobil* homeoffice | teletravail*
worktime | working_time working_hours | arbeitszeit* | horaire*
allowance | allowance* compensation | entschadig* zulage* pauschal* | indemnit*
contractor | contractor* provider* | dienstleist* auftragnehm* | prestatair*
password | password* | passwort* passwort* kennwort* | mot_de_passe mots_de_passe
character | character* | zeichen | caractere*
device | device* appliance* machine* unit | gerat* apparat* | appareil* dispositif*
lost | lost lose loses missing | verlor* verlier* | perdu* perd
software | software program* | software programm* | logiciel*
install | install* | install* | install*
administrator | admin* | admin* | admin*
water | water | wasser* | eau eaux
pressure | pressure | druck* wasserdruck* | pression*
temperature | temperature* | temperatur* vorlauftemperatur* | temperatur*
power | power output | leistung* nennleistung* | puissance*
heating | heating boiler* heater* | heizkess* heizung* heizgerat* | chaudier* chauffage*
clean | clean* | reinig* gereinigt putz* saub* | nettoy*
maintain | maintain* maintenance servic* | wart* gewartet wartung* | entret* entretien maintenance
repair | repair* fix fixed | reparier* reparatur* | repar*
fault | fault* error* failure* defect* mistake* | fehler* storung* defekt* | erreur* panne* defaut* defectueu*
mean | mean means indicate* signal* | bedeut* zeigt anzeig* | signifi* indiqu* signal*
disconnect | disconnect* unplug* | trenn* ausstecken | debranch*
fuel | fuel* | brennstoff* kraftstoff* | combustible*
wood | wood* | holz* | bois
pellets | pellet* | pellet* | granule*
pet | pet pets dog dogs animal* | haustier* hund hunde hunden tier tiere tieren | animaux animal chien*
child | child* kid kids | kind kinder* | enfant*
spouse | spouse* husband wife | ehepartner* ehegatt* ehefrau ehemann | conjoint* epou*
free | free gratis no_charge without_charge | kostenlos* gratis kostenfrei* unentgeltlich* | gratuit* sans_frais
vehicle | vehicle* car cars | fahrzeug* wagen auto autos | vehicul* voitur*
customer | customer* client clients guest* | kunde kunden kundin* gast gaste* | client clients cliente* clientes
manufacturer | manufactur* producer* | hersteller* | fabricant* producteur*
buyer | buyer* purchaser* | kaufer* | acheteur* acquereur*
seller | seller* vendor* | verkaufer* | vendeur*
handover | handover handed deliver* delivery | uberga* ubergeb* ubergib* liefer* | remis* livr*
delay | delay* late | verzog* verspat* | retard*
warranty | warrant* guarant* | garanti* gewahrleist* | garanti*
accident | accident* | unfall* | accident*
withdraw | withdraw* withdrew drop_out dropped_out leave_the | zurucktret* rucktritt* abbrach* ausschied | retir*
    abandon*
trial | trial* study studies | studie* untersuchung* | etude* essai*
patient | patient* | patient* | patient*
drug | drug* medicine* medication* | medikament* arznei* | medicament*
effect | effect* influenc* impact* affect* | einfluss* wirk* beeinfluss* auswirk* | effet* influen* impact*
prove | prov* show* evidence demonstrat* | nachweis* nachgewiesen* zeig* beleg* | prouv* montr* demontr*
relation | relation* link* correlat* connection | zusammenhang* | lien* relation* correl*
find | find finds found observ* notic* | fand fanden gefunden beobacht* festgestellt | trouv* observ* constat*
frequent | frequent* common* | haufig* | frequent* courant*
average | average mean | durchschnitt* mittel | moyen*
fund | fund* financ* | finanzier* forder* | financ*
result | result* outcome* finding* | ergebnis* resultat* | resultat*
hospital | hospital* clinic* | krankenhaus* klinik* | hopita* clinique*
adult | adult* | erwachsen* | adulte*
sleep | sleep* slept | schlaf* schlief* | dorm* sommeil
council | council* | gemeinderat* rat stadtrat* | conseil*
board | board | vorstand* verwaltungsrat* | conseil*
meeting | meeting* session* met | sitzung* versamml* treffen | reunion* reuni* seance*
mayor | mayor* | burgermeister* | maire*
school | school* | schul* | ecole*
daycare | day-care daycare nursery kindergarten | kita kindertagesstatt* kindergarten* | creche* maternelle*
renovate | renovat* renew* refurbish* | renovier* erneuer* sanier* | renov* refection
build | build* built construction | bau bauen gebaut neubau* errichte* | constru* bati*
cost | estimate* | geschatzt* schatz* voraussichtlich | estim*
tax | tax* | steuer* | impot* taxe*
museum | museum* | museum* | musee*
visitor | visitor* welcom* | besucher* empfing* | visiteur* accueil*
entry | entry admission ticket* | eintritt* | entree*
company | company companies firm* business* | unternehmen* firma firmen gesellschaft* | entreprise* societe*
revenue | revenue* turnover sales | umsatz* | chiffre_d'affaires recettes
chief | chief ceo executive | geschaftsfuhr* chef* | directeur* directrice* chef*
operate | operat* run runs running work works | betrieb* betreib* fahrt fahren lauft | fonction* exploit*
operator | operator* user* | betreiber* | exploitant* utilisateur*
rule | rule* polic* regulation* | regel* vorschrift* | regl*
answer | answer* repl* respond* respons* | antwort* beantwort* geantwort* | repon*
access | access* | zugriff* zugang* | acces acced*
person | person people individual* | person* menschen leute | personne* gens
third | third_parties third_party | dritte* | tiers
applicant | applicant* candidate* | bewerber* | candidat*
personal | personal | personenbezogen* personlich* | personnel* personnelle*
carry | carry carri* transport* convey* | beforder* transportier* | transport*
last | last lasts take takes duration | dauer* | dur*
notice | notice | frist* kundigungsfrist* | preavis
half | half | halfte | moitie
unoccupied | unoccupied empty vacant | unbewohnt* leer leerstehend | inoccup* vide* vacant*
deliberate | deliberat* intention* | vorsatz* absicht* | intentionn* deliber*
cause | caus* | verursach* herbeifuhr* herbeigefuhr* | caus* provoqu*
responsible | responsib* liable | verantwort* zustandig* haftpflicht* | responsab* charge
minor | minor small little | klein* gering* | petit*
maximum | maximum max at_most up_to | maxim* hochst* hochstens bis_zu | maxim* jusqu*
minimum | minimum min at_least | mindest* mindestens minim* | minim* au_moins
advance | advance beforehand prior before | voraus vorher vorherig* zuvor vorab | avance prealable* avant
written | writ* | schrift* | ecrit*
pedestrian | pedestrian* | fussganger* | pieton*
warehouse | warehouse* | lager* | entrepot*
office | office* | buro* | bureau*
vote | vote* votes | stimme* stimmen | voix vote*
pump | pump* | pump* | pompe*
turn | turn* revolution* rotat* | dreh* umdrehung* | tourne* tour tours rotation*
lubricate | lubric* oil oiled greas* | schmier* | lubrif* graiss*
production | produc* yield* | produzier* erzeug* | produ* donn*
"""

# Who and what acts or is acted on; a concept that is none of these tells what is done, or how.
PARTICIPANTS = frozenset(
    "tenant landlord employee employer trainee manager contractor administrator operator buyer seller spouse child"
    " patient applicant council board mayor company chief visitor person third vehicle pump heating drug museum school"
    " customer manufacturer pellets wood fuel water pressure temperature power overtime warranty tax"
    " daycare deposit rent excess password backup software device pet warehouse office hospital adult".split()
)
CONCEPTS = frozenset(re.findall(r"^\w+", _CONCEPTS, re.M))
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar janvier",
            "february februar fevrier",
            "march marz mars",
            "april avril",
            "may mai",
            "june juni juin",
            "july juli juillet",
            "august aout",
            "september septembre",
            "october oktober octobre",
            "november novembre",
            "december dezember decembre",
        ),
        1,
    )
    for name in names.split()
}
# What has to be the same: another day of the week, season or part of the world is another statement.
ANCHORS = {
    name: f"{kind}:{number}"
    for kind, rows in (
        (
            "weekday",
            "monday mondays montag montags lundi|tuesday tuesdays dienstag dienstags mardi|wednesday"
            " wednesdays mittwoch mittwochs mercredi|thursday thursdays donnerstag donnerstags jeudi|friday fridays"
            " freitag freitags vendredi|saturday saturdays samstag samstags sonnabend samedi|sunday sundays"
            " sonntag sonntags dimanche dimanches",
        ),
        ("season", "spring fruhjahr fruhling printemps|summer sommer ete|autumn herbst automne|winter hiver"),
    )
    for number, names in enumerate(rows.split("|"))
    for name in names.split()
}
RANGES = frozenset("bis to until till and und et a jusqu".split())
"""What stands between the beginning and the end of a span of time."""
# How often or for how long each: "stündlich" is not "täglich".
PERIODS = {
    name: f"per:{period}"
    for period, names in {
        "hour": "hourly stundlich horaire",
        "day": "daily nightly taglich nachtlich quotidien quotidienne quotidiennement",
        "week": "weekly wochentlich hebdomadaire",
        "month": "monthly monatlich mensuel mensuelle mensuellement",
        "quarter": "quarterly vierteljahrlich trimestriel trimestrielle",
        "year": "yearly annual annually jahrlich annuel annuelle annuellement",
    }.items()
    for name in names.split()
}
ONE = frozenset("one ein eine einen einem einer un une".split())
EACH = frozenset("per each every a je pro jede jeder jedes jeden im am par chaque".split())
UNITS = {
    name: unit
    for unit, names in {
        "year": "year years jahr jahre jahren an ans annee annees yr yrs",
        "quarter": "quarter quarters quartal quartale trimestre trimestres",
        "month": "month months monat monate monaten monats mois",
        "week": "week weeks woche wochen semaine semaines",
        "day": "day days tag tage tagen jour jours night nights nacht nuit nuits",
        "hour": "hour hours stunde stunden heure heures hrs",
        "minute": "minute minutes minuten min mins",
        "second": "second seconds sekunde sekunden seconde secondes sec",
        "percent": "% percent prozent pourcent",
        "eur": "€ eur euro euros",
        "usd": "$ usd dollar dollars",
        "gbp": "£ gbp pound pounds pfund sterling",
        "cent": "cent cents centime centimes ct",
        "chf": "chf franken francs franc",
        "jpy": "¥ jpy yen",
        "kilogram": "kg kilogram kilograms kilogramm kilogramme kilogrammes kilo kilos",
        "gram": "g gram grams gramm gramme grammes",
        "tonne": "t tonne tonnes tonnen tons ton",
        "litre": "l litre litres liter liters litern",
        "millilitre": "ml",
        "kilometre": "km kilometre kilometres kilometer kilometers kilometern",
        "metre": "m m2 m3 qm cbm metre metres meter meters metern",
        "centimetre": "cm",
        "millimetre": "mm",
        "mmhg": "mmhg",
        "bar": "bar bars",
        "celsius": "°c celsius",
        "fahrenheit": "°f fahrenheit",
        "kilowatt": "kw",
        "watt": "w watt watts",
        "kwh": "kwh",
        "times": "times mal fois",
        "gigabyte": "gb",
        "megabyte": "mb",
        "terabyte": "tb",
    }.items()
    for name in names.split()
}
CURRENCIES = frozenset({"eur", "usd", "gbp", "chf", "jpy"})
MULTIPLIERS = {
    name: factor
    for factor, names in {
        1e3: "thousand tausend mille tsd",
        1e6: "million millions millionen mio mn",
        1e9: "billion billions milliarde milliarden mrd milliard milliards bn",
    }.items()
    for name in names.split()
}

# A sentence is denied as often as one of these stands in it; French `ne` says nothing that `pas` doesn't.
NEGATIONS = {
    "en": frozenset("not no never none nobody nothing neither nor without cannot".split()),
    "de": frozenset("nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne weder".split()),
    "fr": frozenset("pas jamais aucun aucune rien ni sans nullement".split()),
}
EXCEPTIONS = frozenset("except unless sauf excepte ausser".split())
OUTCOMES = frozenset(("approve", "postpone", "withdraw"))
"""What becomes of a proposal: one of these."""
UNIVERSAL = frozenset(
    "all every each any anybody anyone everybody everyone whole entire alle allen aller alles jede jeder jedes jeden"
    " jedem jedermann samtliche samtlichen tous toutes tout toute chaque quiconque".split()
)
PARTIAL = frozenset(
    "most some many several few majority mostly sometimes often usually meist meisten einige manche mehrere viele oft"
    " manchmal wenige plupart certains certaines quelques plusieurs parfois souvent majorite".split()
)
ONLY = frozenset("only solely nur lediglich ausschliesslich seulement uniquement seul seuls seule seules".split())
ALWAYS = frozenset("always immer stets jederzeit toujours".split())
OBLIGED = frozenset(
    "must shall required mandatory compulsory obligatory obliged muss mussen musste mussten verpflichtet"
    " vorgeschrieben pflicht doit doivent devez faut have_to obligatoire obligatoires obligatoirement tenu".split()
)
PERMITTED = frozenset(
    "may can could might allowed permitted optional darf durfen kann konnen konnte konnten erlaubt gestattet peut"
    " peuvent pouvez possible autorise autorisee".split()
)
CAUSES = frozenset(
    "because due caused owing thanks weil denn wegen aufgrund infolge dank verursacht verursachte parce puisque"
    " cause causee causes grace".split()
)
"""What says that something follows from something else."""
CAUSES_TOO = CAUSES | frozenset(
    "led lead leads therefore reason reasons attribute attributed attributes result results resulted so since da"
    " deshalb daher darum grund grunde fuhrt fuhrte fuhrten bewirkt bewirkte entraine entrainee entrainer"
    " provoque provoquee raison suite ainsi donc".split()
)
"""And what may say so."""
CAUSES_BACK = frozenset(
    "therefore hence thus consequently reason reasons deshalb deswegen daher darum grund grunde donc raison"
    " raisons".split()
)
"""What refers to a cause, or an effect, that stands in the sentence before."""
LIGHT = frozenset("permit required maximum minimum party person begin end include rise operate".split())
"""Concepts that are said in many ways, with or without a word of their own."""
COMPARISONS = frozenset(("than", "als", "que", "qu"))
PRONOUNS = frozenset("it they he she them this these er sie es ihn dieser diese dieses il elle ils elles celui".split())
PREPOSITIONS = {
    name: names.split()[0]
    for names in (
        "with|by|of|from|to|at|in|into|for|on|mit|aus|von vom|im in|am an|bei beim|fur für|zu zum zur|auf|a au aux à"
        "|par|avec|en|de du des|pour|dans|sur|chez"
    ).split("|")
    for name in names.split()
}
"""Each with its form without an article."""
PASSIVE = frozenset(("by", "von", "vom", "par"))
TITLES = frozenset("mr mrs ms dr prof professor professorin herr herrn frau mme monsieur madame".split())

STOP_WORDS = {
    "en": frozenset(
        "a an the and or but if of to in on at by for from with as is are was were be been being has have had do does"
        " did this that these those it its their his her he she they them you your we our us i my will would can could"
        " may might must shall should not no only than then there here when while who whom which what whose so such"
        " into over under after before during until up out about between both either also any all each every most"
        " some more less other another same very just even however therefore because due per within without unless"
        " whereas although once still again too own how where why get gets one want make makes made give gives given"
        " giving according take cannot cubic square"
        " takes took became become becomes receive receives despite though whereby thereby moreover furthermore namely"
        " upon via regarding overall".split()
    ),
    "de": frozenset(
        "der die das den dem des ein eine einen einem einer eines und oder aber wenn falls als wie von vom zu zum zur"
        " in im an am auf aus bei bis für fur mit nach über uber unter um durch gegen ohne vor ist sind war waren wird"
        " werden wurde wurden worden sein hat haben hatte hatten kann können konnen konnte darf dürfen durfen muss"
        " müssen mussen soll sollen will es er sie wir ihr ich man sich nicht kein keine keinen nur auch noch schon"
        " dass dieser diese dieses diesem diesen jeder jede jedes alle allen so sehr mehr weniger dann da weil denn"
        " während wahrend sowie sofern dazu dabei daran damit deren dessen welche je pro selbst bereits etwa beim ihnen"
        " ihre ihren seine seiner gibt seit wer was wo statt findet binnen innerhalb sowohl uhr"
        " wegen aufgrund infolge trotz obwohl dennoch trotzdem jedoch allerdings hingegen laut gemäß zufolge jeweils"
        " insgesamt zudem außerdem dafür davon darin darauf hierfür hierbei sondern zwar nämlich ob wobei welcher"
        " welches welchem welchen solche solcher ab".split()
    ),
    "fr": frozenset(
        "le la les l un une des du de d et ou mais si que qu qui quoi dont où ou à a au aux en dans sur sous par pour"
        " avec sans est sont était etait étaient etaient été ete être etre ont avait avoir ai as il elle ils elles on"
        " nous vous je tu se s ce c cet cette ces son sa ses leur leurs notre votre vos ne n pas plus moins très tres"
        " aussi ainsi comme lors lorsque quand chaque tout toute tous toutes même meme peut peuvent doit doivent faut"
        " ni car donc puis y entre vers chez après apres avant depuis jusqu sauf celui celle celles ceux là fait lui"
        " dès jamais afin lieu malgré cependant toutefois néanmoins selon notamment également ensuite enfin durant"
        " pendant".split()
    ),
}


def meanings() -> Mapping[str, Mapping[str, Meaning]]:
    """For each language what its words mean: by the word, or by its beginning with `*` after it."""
    read: dict[str, dict[str, Meaning]] = {language: {} for language in LANGUAGES}
    for line in re.sub(r"\n +", " ", _CONCEPTS).strip().splitlines():
        concept, *columns = (column.strip() for column in line.split("|"))
        for language, words in zip(LANGUAGES, columns, strict=True):
            for word in words.split():
                read[language].setdefault(word.lstrip("-"), Meaning(concept, word.startswith("-")))
    return read


def number_words() -> Mapping[str, int]:
    """The numbers from 2 to 99, and hundred, in words: of all three languages, folded, with and without hyphens; in
    German, which makes one word of them, up to 999.
    """
    words = {
        "twice": 2,
        "hundred": 100,
        "hundert": 100,
        "cent": 100,
        "dozen": 12,
        "dutzend": 12,
        "douzaine": 12,
        "quinzaine": 15,
    }
    for number in range(2, 100):
        for name in (_english(number), _german(number), _french(number)):
            words[name] = number
            words[name.replace("-", " ")] = number
        words[f"{_german(number)}mal"] = number
    for number in range(100, 1000):
        hundreds, rest = divmod(number, 100)
        name = f"hundert{_german(rest) if rest else ''}"
        words[f"{_german(hundreds)}{name}"] = number
        if hundreds == 1:
            words[name] = number
    return words


_EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_DE = (
    "null ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn siebzehn"
    " achtzehn neunzehn"
).split()
_DE_TENS = "zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig".split()
_FR = (
    "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit"
    " dix-neuf"
).split()
_FR_TENS = "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def _english(number: int) -> str:
    if number < 20:
        return _EN[number]
    return _EN_TENS[number // 10 - 2] + (f"-{_EN[number % 10]}" if number % 10 else "")


def _german(number: int) -> str:
    if number < 20:
        return _DE[number]
    tens = _DE_TENS[number // 10 - 2]
    return f"{_DE[number % 10]}und{tens}" if number % 10 else tens


def _french(number: int) -> str:
    if number < 20:
        return _FR[number]
    tens, rest = _FR_TENS[number // 10 - 2], number % 10
    if number >= 90 or 70 <= number < 80:
        rest += 10
    if rest == 0:
        return tens + ("s" if number == 80 else "")
    joint = "-et-" if rest in (1, 11) and number < 80 else "-"
    return f"{tens}{joint}{_FR[rest]}"
