#!/usr/bin/env python3
"""Generates sample/: pairs of sentences in the layout of XNLI that PaddlePaddle's BERT/reader/cls.py reads.

    make_sample.py [--folder FOLDER] [--train N] [--dev N] [--test N] [--languages L ...] [--train_languages L ...]

XNLI is licensed for non-commercial use, so its sentences are not in this repository. Here a premise is an event with a
person and, by chance, time, place, manner and reason. Each premise has three hypotheses:

* entailment: the event or a more general one, with some of the premise's circumstances and no others
* contradiction: the event's negation or opposite, or the event at another time or place
* neutral: the event with a circumstance that the premise lacks or that differs from the premise's, or another event

A quarter of the premises is negated; the event itself then contradicts them. Every form of an event also occurs in
neutral hypotheses, so that a model must read the premise. Rows of xnli.dev.tsv and xnli.test.tsv are parallel across
languages, as in XNLI. Columns that the reader does not use are empty. The seed is fixed, so that each call writes the
same rows.
"""
import argparse
import random
from pathlib import Path

SEED = 2018
COLUMNS = ("language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 "
           "sentence2 promptID pairID genre label1 label2 label3 label4 label5 sentence1_tokenized sentence2_tokenized "
           "match").split()

# Events, in the same order for each language. The parts of an event: the event | a more general one | its negation |
# its opposite.
PEOPLE = {
    "en": "Anna|Luca|Maria|Tom|Sofia|David|The teacher|The nurse|The baker|My neighbor|The old captain|Her sister",
    "de": "Anna|Luca|Maria|Tom|Sofia|David|Der Lehrer|Die Krankenschwester|Der Bäcker|Mein Nachbar|Der alte Kapitän|Ihre Schwester",
    "es": "Anna|Luca|Maria|Tom|Sofia|David|El profesor|La enfermera|El panadero|Mi vecino|El viejo capitán|Su hermana",
    "fr": "Anna|Luca|Maria|Tom|Sofia|David|Le professeur|L'infirmière|Le boulanger|Mon voisin|Le vieux capitaine|Sa sœur",
}
DAYS = {
    "en": "on Monday|on Tuesday|on Thursday|on Friday|on Sunday",
    "de": "am Montag|am Dienstag|am Donnerstag|am Freitag|am Sonntag",
    "es": "el lunes|el martes|el jueves|el viernes|el domingo",
    "fr": "lundi|mardi|jeudi|vendredi|dimanche",
}
CITIES = {
    "en": "in Berlin|in Madrid|in Lyon|in Vienna|in London",
    "de": "in Berlin|in Madrid|in Lyon|in Wien|in London",
    "es": "en Berlín|en Madrid|en Lyon|en Viena|en Londres",
    "fr": "à Berlin|à Madrid|à Lyon|à Vienne|à Londres",
}
MANNERS = {
    "en": "together with a colleague|with the help of a friend|without telling anyone|for the first time|in a great hurry",
    "de": "gemeinsam mit einem Kollegen|mit Hilfe eines Freundes|ohne es jemandem zu sagen|zum ersten Mal|in großer Eile",
    "es": "junto con un colega|con la ayuda de un amigo|sin decírselo a nadie|por primera vez|con mucha prisa",
    "fr": "avec un collègue|avec l'aide d'un ami|sans le dire à personne|pour la première fois|en toute hâte",
}
REASONS = {
    "en": "because it was raining|because there was plenty of time|because a friend had asked|because the day was long|"
          "to surprise the family",
    "de": "weil es regnete|weil viel Zeit war|weil ein Freund gefragt hatte|weil der Tag lang war|um die Familie zu überraschen",
    "es": "porque llovía|porque había mucho tiempo|porque un amigo lo había pedido|porque el día era largo|"
          "para sorprender a la familia",
    "fr": "parce qu'il pleuvait|parce qu'il y avait beaucoup de temps|parce qu'un ami l'avait demandé|"
          "parce que la journée était longue|pour surprendre la famille",
}
EVENTS = {
    "en": """
        bought a red bicycle|bought something|did not buy a bicycle|bought nothing at all
        sold the old house|sold a building|did not sell the house|kept the old house
        opened the small window|opened something|did not open the window|left the window closed
        lost the car keys|lost something|did not lose the keys|still had the car keys
        cooked soup for the guests|prepared some food|did not cook soup|gave the guests nothing to eat
        reached the station too late|came to the station|was not late at the station|reached the station in time
        won the game of chess|played chess|did not win the game|lost the game of chess
        wrote a long letter|wrote something|did not write a letter|wrote nothing
        repaired the broken radio|repaired a device|did not repair the radio|left the radio broken
        sang two old songs|sang something|did not sing|stayed silent
        drank cold water|drank something|did not drink water|drank nothing
        fed the hungry dog|gave food to an animal|did not feed the dog|let the dog go hungry
        planted three young trees|planted several trees|did not plant trees|planted no tree
        read the whole book|read a book|did not read the book|read only the first page
        missed the last train|came too late for a train|did not miss the train|caught the last train
        paid the high bill|spent money|did not pay the bill|left without paying
        passed the difficult exam|took an exam|did not pass the exam|failed the exam
        painted the door green|painted a door|did not paint the door|painted the door white
        awoke before sunrise|awoke early|did not awake before sunrise|slept until noon
        told the truth|said something|did not tell the truth|lied""",
    "de": """
        kaufte ein rotes Fahrrad|kaufte etwas|kaufte kein Fahrrad|kaufte überhaupt nichts
        verkaufte das alte Haus|verkaufte ein Gebäude|verkaufte das Haus nicht|behielt das alte Haus
        öffnete das kleine Fenster|öffnete etwas|öffnete das Fenster nicht|ließ das Fenster geschlossen
        verlor die Autoschlüssel|verlor etwas|verlor die Schlüssel nicht|hatte die Autoschlüssel noch
        kochte Suppe für die Gäste|bereitete Essen zu|kochte keine Suppe|gab den Gästen nichts zu essen
        erreichte den Bahnhof zu spät|kam zum Bahnhof|war nicht zu spät am Bahnhof|erreichte den Bahnhof rechtzeitig
        gewann die Schachpartie|spielte Schach|gewann die Partie nicht|verlor die Schachpartie
        schrieb einen langen Brief|schrieb etwas|schrieb keinen Brief|schrieb nichts
        reparierte das kaputte Radio|reparierte ein Gerät|reparierte das Radio nicht|ließ das Radio kaputt
        sang zwei alte Lieder|sang etwas|sang nicht|blieb still
        trank kaltes Wasser|trank etwas|trank kein Wasser|trank nichts
        fütterte den hungrigen Hund|gab einem Tier Futter|fütterte den Hund nicht|ließ den Hund hungern
        pflanzte drei junge Bäume|pflanzte mehrere Bäume|pflanzte keine Bäume|pflanzte keinen Baum
        las das ganze Buch|las ein Buch|las das Buch nicht|las nur die erste Seite
        verpasste den letzten Zug|kam zu spät für einen Zug|verpasste den Zug nicht|erwischte den letzten Zug
        bezahlte die hohe Rechnung|gab Geld aus|bezahlte die Rechnung nicht|ging ohne zu bezahlen
        bestand die schwere Prüfung|machte eine Prüfung|bestand die Prüfung nicht|fiel durch die Prüfung
        strich die Tür grün|strich eine Tür|strich die Tür nicht|strich die Tür weiß
        erwachte vor Sonnenaufgang|erwachte früh|erwachte nicht vor Sonnenaufgang|schlief bis zum Mittag
        sagte die Wahrheit|sagte etwas|sagte nicht die Wahrheit|log""",
    "es": """
        compró una bicicleta roja|compró algo|no compró una bicicleta|no compró nada en absoluto
        vendió la casa vieja|vendió un edificio|no vendió la casa|se quedó con la casa vieja
        abrió la ventana pequeña|abrió algo|no abrió la ventana|dejó la ventana cerrada
        perdió las llaves del coche|perdió algo|no perdió las llaves|todavía tenía las llaves del coche
        cocinó sopa para los invitados|preparó comida|no cocinó sopa|no dio de comer a los invitados
        llegó demasiado tarde a la estación|fue a la estación|no llegó tarde a la estación|llegó a tiempo a la estación
        ganó la partida de ajedrez|jugó al ajedrez|no ganó la partida|perdió la partida de ajedrez
        escribió una carta larga|escribió algo|no escribió una carta|no escribió nada
        reparó la radio rota|reparó un aparato|no reparó la radio|dejó la radio rota
        cantó dos canciones antiguas|cantó algo|no cantó|guardó silencio
        bebió agua fría|bebió algo|no bebió agua|no bebió nada
        alimentó al perro hambriento|dio comida a un animal|no alimentó al perro|dejó al perro con hambre
        plantó tres árboles jóvenes|plantó varios árboles|no plantó árboles|no plantó ningún árbol
        leyó todo el libro|leyó un libro|no leyó el libro|leyó solo la primera página
        perdió el último tren|llegó tarde para un tren|no perdió el tren|alcanzó el último tren
        pagó la cuenta alta|gastó dinero|no pagó la cuenta|se fue sin pagar
        aprobó el examen difícil|hizo un examen|no aprobó el examen|suspendió el examen
        pintó la puerta de verde|pintó una puerta|no pintó la puerta|pintó la puerta de blanco
        se despertó antes del amanecer|se despertó temprano|no se despertó antes del amanecer|durmió hasta el mediodía
        dijo la verdad|dijo algo|no dijo la verdad|mintió""",
    "fr": """
        acheta un vélo rouge|acheta quelque chose|n'acheta pas de vélo|n'acheta rien du tout
        vendit la vieille maison|vendit un bâtiment|ne vendit pas la maison|garda la vieille maison
        ouvrit la petite fenêtre|ouvrit quelque chose|n'ouvrit pas la fenêtre|laissa la fenêtre fermée
        perdit les clés de la voiture|perdit quelque chose|ne perdit pas les clés|avait encore les clés de la voiture
        prépara une soupe pour les invités|prépara à manger|ne prépara pas de soupe|ne donna rien à manger aux invités
        arriva trop tard à la gare|alla à la gare|n'arriva pas en retard à la gare|arriva à l'heure à la gare
        gagna la partie d'échecs|joua aux échecs|ne gagna pas la partie|perdit la partie d'échecs
        écrivit une longue lettre|écrivit quelque chose|n'écrivit pas de lettre|n'écrivit rien
        répara la radio cassée|répara un appareil|ne répara pas la radio|laissa la radio cassée
        chanta deux vieilles chansons|chanta quelque chose|ne chanta pas|garda le silence
        but de l'eau froide|but quelque chose|ne but pas d'eau|ne but rien
        nourrit le chien affamé|donna à manger à un animal|ne nourrit pas le chien|laissa le chien avoir faim
        planta trois jeunes arbres|planta plusieurs arbres|ne planta pas d'arbres|ne planta aucun arbre
        lut le livre entier|lut un livre|ne lut pas le livre|lut seulement la première page
        manqua le dernier train|arriva trop tard pour un train|ne manqua pas le train|attrapa le dernier train
        paya la grosse facture|dépensa de l'argent|ne paya pas la facture|partit sans payer
        réussit l'examen difficile|passa un examen|ne réussit pas l'examen|échoua à l'examen
        peignit la porte en vert|peignit une porte|ne peignit pas la porte|peignit la porte en blanc
        se réveilla avant l'aube|se réveilla tôt|ne se réveilla pas avant l'aube|dormit jusqu'à midi
        dit la vérité|dit quelque chose|ne dit pas la vérité|mentit""",
}
CIRCUMSTANCES = (("day", DAYS), ("city", CITIES), ("manner", MANNERS), ("reason", REASONS))
HAPPENED, GENERAL, NEGATED, OPPOSITE = range(4)
EVENT_COUNT, PEOPLE_COUNT, CHOICES = 20, 12, 5


class Draw:
    """Makes all choices with random(), because its values are the same in every version of Python."""

    def __init__(self, *key):
        self.rng = random.Random("/".join(map(str, (SEED, *key))))

    def below(self, n):
        return int(self.rng.random() * n)

    def chance(self, p):
        return self.rng.random() < p

    def one(self, values):
        return values[self.below(len(values))]

    def other(self, index, n):
        return (index + 1 + self.below(n - 1)) % n

    def some(self, circumstances):
        """Returns some of the circumstances, but not all of them."""
        left = {k: v for k, v in circumstances.items() if self.chance(0.5)}
        if len(left) == len(circumstances) and left:
            left.pop(self.one(sorted(left)))
        return left


def render(language, person, event, form, circumstances):
    words = [PEOPLE[language].split("|")[person], EVENTS[language].strip().splitlines()[event].strip().split("|")[form]]
    text = " ".join(words + [table[language].split("|")[circumstances[k]] for k, table in CIRCUMSTANCES[:3] if k in circumstances])
    if "reason" in circumstances:
        text += (", " if language == "de" else " ") + REASONS[language].split("|")[circumstances["reason"]]
    return text + "."


def contradiction(draw, event, negated, given):
    if negated:
        return event, HAPPENED, draw.some(given)
    moved = [k for k in ("day", "city") if k in given]
    if moved and draw.chance(0.5):
        kind = draw.one(moved)
        return event, HAPPENED, draw.some(given) | {kind: draw.other(given[kind], CHOICES)}
    return event, draw.one((NEGATED, OPPOSITE)), {k: v for k, v in draw.some(given).items() if k in ("day", "city")}


def neutral(draw, event, negated, given):
    if negated or draw.chance(0.3):
        return draw.other(event, EVENT_COUNT), draw.one((HAPPENED, GENERAL, NEGATED, OPPOSITE)), draw.some(given)
    kinds = [k for k, _ in CIRCUMSTANCES if k not in given] or ["manner", "reason"]
    kind = draw.one(kinds)
    new = draw.other(given[kind], CHOICES) if kind in given else draw.below(CHOICES)
    return event, HAPPENED, draw.some(given) | {kind: new}


def triples(draw, count):
    """Returns `count` rows, three for each premise. A row has the label, and the person, event, form and circumstances
    of premise and hypothesis."""
    rows = []
    while len(rows) < count:
        person, event, negated = draw.below(PEOPLE_COUNT), draw.below(EVENT_COUNT), draw.chance(0.25)
        kinds = ["manner", "reason"] if negated else [k for k, _ in CIRCUMSTANCES]
        given = {k: draw.below(CHOICES) for k in kinds if draw.chance(0.6)} or {"reason": draw.below(CHOICES)}
        form = NEGATED if negated else draw.one((HAPPENED, GENERAL))
        hypotheses = [("entailment", (event, form, draw.some(given))), ("neutral", neutral(draw, event, negated, given)),
                      ("contradiction", contradiction(draw, event, negated, given))]
        premise = (person, event, NEGATED if negated else HAPPENED, given)
        for _ in range(3):
            label, hypothesis = hypotheses.pop(draw.below(len(hypotheses)))
            rows.append((label, premise, (person, *hypothesis)))
    return rows[:count]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def published(part, languages, count):
    out = [COLUMNS]
    for language in languages:
        for label, premise, hypothesis in triples(Draw(part), count):
            row = {"language": language, "gold_label": label, "sentence1": render(language, *premise),
                   "sentence2": render(language, *hypothesis)}  # fmt: skip
            out.append([row.get(column, "") for column in COLUMNS])
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "sample")
    parser.add_argument("--train", type=int, default=3600, help="pairs of a training file")
    parser.add_argument("--dev", type=int, default=90, help="pairs of a language in xnli.dev.tsv")
    parser.add_argument("--test", type=int, default=150, help="the same in xnli.test.tsv")
    parser.add_argument("--languages", nargs="+", choices=sorted(PEOPLE), default=sorted(PEOPLE))
    parser.add_argument("--train_languages", nargs="+", choices=sorted(PEOPLE), default=["en"])
    args = parser.parse_args()
    for language in args.train_languages:
        rows = triples(Draw("train", language), args.train)
        lines = [[render(language, *p), render(language, *h), "contradictory" if label == "contradiction" else label]
                 for label, p, h in rows]  # fmt: skip
        write(args.folder / f"multinli/multinli.train.{language}.tsv", [["premise", "hypo", "label"], *lines])
    write(args.folder / "xnli.dev.tsv", published("dev", args.languages, args.dev))
    write(args.folder / "xnli.test.tsv", published("test", args.languages, args.test))


if __name__ == "__main__":
    main()
