"""Words that say nothing about a topic: the most frequent ones of a few languages, and those of any assistant's answer.

Shorter ones count for nothing anyway (see matching).
"""

_ENGLISH = """
about above after again against also although always among another anyone anything around back because been before
behind being below between both came cannot come could does doing done down during each either else enough even ever
every everyone everything except first following from further gave give given goes going gone good have having here
hers herself himself however into itself just keep kept know known last later least less like likely made make makes
making many might more most much must myself need needed needs neither never next none nothing often once only onto
other others ours over perhaps please quite rather really right said same says seem seems several shall should show
shown shows since some someone something sometimes soon still such sure take taken tell than that their theirs them
then there therefore these they thing things this those though through thus together told took toward under unless
until upon used uses using usually very want wants well went were what whatever when where whether which while whole
whom whose will with within without would year years your yours yourself answer ask asked current currently data
detail details found help here's information look looked looking question questions request result results search
searched
"""
_GERMAN = """
aber alle allem allen aller alles also andere anderen auch auf aus beide beiden beim bereits besonders bevor bietet
bin bitte dabei dadurch dafür dagegen daher damit danach dann daran darauf daraus darf darin darüber dass davon dazu
dein deine demnach denen denn deren derzeit deshalb dessen deswegen diese diesem diesen dieser dieses doch dort durch
eben ebenfalls eigentlich eine einem einen einer eines einfach einige einigen erst etwa etwas euch euer falls fast
ganz gegen genau gerade gern gerne gibt habe haben hatte hatten heißt hier ihnen ihre ihrem ihren ihrer immer indem
jede jedem jeden jeder jedes jedoch jetzt kann kannst keine keinen können könnte lassen machen macht mehr mein meine
mich möchte möchten muss müssen nach nachdem nämlich nicht nichts noch nutzen oder ohne sehr sein seine seinem seinen
seiner seit selbst sich sie sind sobald sofern solche soll sollen sollte sollten sondern sonst sowie statt trotz über
unter viel viele vielen vom vor wann war waren warum wegen weil weiter weitere weiteren welche welchem welchen welcher
wenig wenn werde werden wird wieder will wissen wollen worden wurde wurden während würde würden zuerst zum zur zwar
zwischen angaben anfrage antwort aktuell aktuelle aktuellen beispiel daten ergebnis ergebnisse frage fragen gefunden
hilfe informationen suche
"""
_FRENCH = """
ainsi alors après aucun aucune aussi autre autres avant avec avoir avons beaucoup bien cela celle celles celui
cependant ces cette ceux chaque chez comme comment contre dans depuis dernière des donc dont elle elles encore entre
est étaient était être eux fait faire font hors ici jusque leur leurs lors lorsque lui mais même mêmes moins notamment
notre nous parce pas pendant peut peuvent plus plusieurs pour pourquoi puis quand que quel quelle quelles quelque
quelques qui sans sera serait ses seulement selon soit sommes sont sous souvent suis sur tous tout toute toutes très
trop une vers voici voilà votre vous aide besoin demande détails données information informations question questions
réponse résultat résultats trouvé
"""
_SPANISH = """
además ahora algo algún alguna algunas algunos antes aquel aquella aquí así aunque bien cada casi como cómo con contra
cual cuál cuales cuando cuándo cuenta cuyo debe deben decir desde después dónde donde durante ella ellas ellos
entonces entre era eran eres esa esas ese eso esos esta está estaba están estar estas este esto estos fue fueron gran
había hace hacer hacia hasta hay incluso luego mejor menos mientras mismo mucha muchas mucho muchos nada nos nosotros
nuestra nuestro nunca otra otras otro otros para parte pero poco porque puede pueden pues que qué quien quién según
sea sean ser siempre sido siendo sin sino sobre solo son soy sus también tanto tener tenía tiene tienen toda todas
todo todos tras una unas uno unos usted ustedes vez ayuda datos detalles encontré información necesita pregunta
preguntas respuesta resultado resultados
"""

COMMON_WORDS = frozenset(f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH}".split())
