"""Small files of published forms of ontologies, thesauri and phylogenies; what they say is made up."""

from pathlib import Path

RDF = (
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"'
)
FILES = {
    "food.ttl": """\
# a thesaurus
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix : <http://example.org/food/> .
:all a skos:ConceptScheme ; dct:title "Food"@en ; skos:hasTopConcept :c1 .
:c1 a skos:Concept ; skos:prefLabel "Obst"@de, "Fruit"@en ; skos:notation "F1" ; skos:narrower :c2, :c3 .
:c2 a skos:Concept ; skos:prefLabel "Apple"@en, "Apfel"@de ; skos:altLabel "Pome"@en, "Apfelfrucht"@de .
:c3 a skos:Concept ; skos:prefLabel "Pear"@en-GB ; skos:broader :c1 .
:c4 a skos:Concept ; skos:prefLabel "Old pear"@en ; skos:broader :c1 ; owl:deprecated true ;
    dct:isReplacedBy :c3 .
""",
    "food.jsonld": """\
{"@context": {"skos": "http://www.w3.org/2004/02/skos/core#", 
  "broader": {"@id": "skos:broader", "@type": "@id"}},
 "@graph": [
  {"@id": "http://example.org/food/c1", "@type": "skos:Concept",
   "skos:prefLabel": {"@value": "Fruit", "@language": "en"}},
  {"@id": "http://example.org/food/c2", "@type": "skos:Concept",
   "skos:prefLabel": {"@value": "Apple", "@language": "en"},
   "broader": "http://example.org/food/c1"}]}
""",
    "food.nt": r"""<http://e.org/c1> <http://www.w3.org/2004/02/skos/core#prefLabel> "Fr\u00FCchte"@de .
# a comment
<http://e.org/c2> <http://www.w3.org/2004/02/skos/core#broader> <http://e.org/c1> .
<http://e.org/c2> <http://www.w3.org/2008/05/skos-xl#prefLabel> _:x .
_:x <http://www.w3.org/2008/05/skos-xl#literalForm> "Apfel"@de .
<http://e.org/c2> <http://e.org/else> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .
""",
    "cells.owl": f"""\
<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [
    <!ENTITY obo "http://purl.obolibrary.org/obo/" > <!-- a > in a comment -->
]>
<rdf:RDF xmlns="&obo;x.owl#" xml:base="http://purl.obolibrary.org/obo/x.owl" {RDF}
     xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#" xmlns:obo="&obo;">
  <owl:Ontology rdf:about="http://purl.obolibrary.org/obo/x.owl">
    <owl:imports rdf:resource="http://purl.obolibrary.org/obo/imports/y.owl"/>
    <owl:versionInfo>2025-01-02</owl:versionInfo>
  </owl:Ontology>
  <owl:Class rdf:about="&obo;X_0001"><rdfs:label xml:lang="en">cell</rdfs:label></owl:Class>
  <owl:Class rdf:about="&obo;X_0002"><rdfs:label>neuron</rdfs:label>
    <rdfs:subClassOf rdf:resource="&obo;X_0001"/>
    <rdfs:subClassOf><owl:Restriction><owl:onProperty rdf:resource="&obo;BFO_1"/>
      <owl:someValuesFrom rdf:resource="&obo;X_0003"/></owl:Restriction></rdfs:subClassOf>
    <oboInOwl:hasExactSynonym>nerve cell</oboInOwl:hasExactSynonym>
  </owl:Class>
  <owl:Class rdf:about="#glia"><rdfs:label>glia</rdfs:label>
    <rdfs:subClassOf><owl:Class rdf:about="&obo;X_0001"/></rdfs:subClassOf>
    <rdfs:subClassOf rdf:resource="http://example.org/elsewhere"/></owl:Class>
  <owl:Class rdf:about="&obo;X_0009"><rdfs:label>old nerve</rdfs:label>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
    <obo:IAO_0100001 rdf:resource="&obo;X_0002"/></owl:Class>
</rdf:RDF>
""",
    "cells.json": """\
{"graphs": [{"id": "http://purl.obolibrary.org/obo/x.json",
 "nodes": [
  {"id": "http://purl.obolibrary.org/obo/X_1", "lbl": "cell", "type": "CLASS"},
  {"id": "http://purl.obolibrary.org/obo/X_2", "lbl": "neuron", "type": "CLASS",
   "meta": {"synonyms": [{"pred": "hasExactSynonym", "val": "nerve cell"},
                         {"pred": "hasBroadSynonym", "val": "no"}]}},
  {"id": "http://purl.obolibrary.org/obo/X_3", "lbl": "old nerve", "type": "CLASS",
   "meta": {"deprecated": true,
   "basicPropertyValues": [{"pred": "http://purl.obolibrary.org/obo/IAO_0100001", "val": "X:2"}]}},
  {"id": "http://purl.obolibrary.org/obo/BFO_50", "lbl": "part of", "type": "PROPERTY"}],
 "edges": [
  {"sub": "http://purl.obolibrary.org/obo/X_2", "pred": "is_a", "obj": "http://purl.obolibrary.org/obo/X_1"},
  {"sub": "http://purl.obolibrary.org/obo/X_1", "pred": "http://purl.obolibrary.org/obo/BFO_50",
   "obj": "http://purl.obolibrary.org/obo/X_2"}]}]}
""",
    "icd.xml": """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ClaML SYSTEM "ClaML.dtd">
<ClaML version="2.0.0"><Title name="Ailments" version="2019" date="2019"/>
<Class code="I" kind="chapter"><SubClass code="A00-A09"/>
  <Rubric kind="preferred" id="1"><Label xml:lang="en">Infections</Label></Rubric></Class>
<Class code="A00-A09" kind="block"><SuperClass code="I"/>
  <Rubric kind="preferred"><Label xml:lang="en">Of the gut</Label></Rubric></Class>
<Class code="A00" kind="category"><SuperClass code="A00-A09"/>
  <Rubric kind="preferred"><Label xml:lang="en">Cholera</Label></Rubric>
  <Rubric kind="inclusion"><Label xml:lang="en">blue <Reference>A01</Reference>death</Label></Rubric></Class>
</ClaML>
""",
    "tabular.xml": """\
<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular><version>2026</version><title>A list</title>
<chapter><name>1</name><desc>Infections (A00-B99)</desc>
<sectionIndex><sectionRef first="A00" last="A09" id="A00-A09">Of the gut</sectionRef></sectionIndex>
<section id="A00-A09"><desc>Of the gut (A00-A09)</desc>
<diag><name>A00</name><desc>Cholera</desc><diag><name>A00.0</name><desc>Cholera, first kind</desc>
<inclusionTerm><note>Old cholera</note></inclusionTerm></diag></diag></section>
<section id="A10-A19"><desc>Nothing</desc></section></chapter></ICD10CM.tabular>
""",
    "d2025.bin": """\
*NEWRECORD
RECTYPE = D
MH = Body Regions
MN = A01
UI = D001

*NEWRECORD
RECTYPE = D
MH = Breast
ENTRY = Mamma|T023|NON|EQV|UNK (19XX)|123
MN = A01.236
MN = A10.1
MS = In birds = none
UI = D002

*NEWRECORD
MH = Tissue
MN = A10
UI = D003

*NEWRECORD
MH = Of no place
UI = D004
""",
    "desc2025.xml": """\
<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset.dtd">
<DescriptorRecordSet LanguageCode = "eng">
<DescriptorRecord><DescriptorUI>D1</DescriptorUI><DescriptorName><String>Body</String></DescriptorName>
<TreeNumberList><TreeNumber>A01</TreeNumber></TreeNumberList><ConceptList><Concept>
<ConceptName><String>no</String></ConceptName><TermList><Term><String>Bodies</String></Term></TermList>
</Concept></ConceptList></DescriptorRecord>
<DescriptorRecord><DescriptorUI>D2</DescriptorUI><DescriptorName><String>Arm</String></DescriptorName>
<PharmacologicalActionList><PharmacologicalAction><DescriptorReferredTo><DescriptorUI>D9</DescriptorUI>
<DescriptorName><String>no</String></DescriptorName></DescriptorReferredTo></PharmacologicalAction>
</PharmacologicalActionList><TreeNumberList><TreeNumber>A01.1</TreeNumber></TreeNumberList></DescriptorRecord>
</DescriptorRecordSet>
""",
    "apes.nex": """\
#NEXUS
[a file; with a semicolon]
BEGIN TAXA; DIMENSIONS NTAX=3; TAXLABELS A B C; END;
begin trees;
  Translate 1 Homo_sapiens, 2 'Pan paniscus', 3 Mus;
  tree one = [&R] ((1:1,2:2)Hominidae:1,3);
end;
""",
    "apes.phyloxml": """\
<?xml version="1.0"?><phyloxml xmlns="http://www.phyloxml.org"><phylogeny rooted="true"><name>t</name>
<clade><clade><name>A</name><clade><taxonomy><id>9606</id><scientific_name>Homo sapiens</scientific_name>
<common_name>human</common_name></taxonomy></clade><clade><name>C</name></clade></clade>
<clade><name>B</name></clade></clade></phylogeny></phyloxml>
""",
    "apes.nexml": """\
<nex:nexml version="0.9" xmlns:nex="http://www.nexml.org/2009" xmlns="http://www.nexml.org/2009">
<otus id="o"><otu id="o1" label="Homo sapiens"/><otu id="o2" label="Mus"/></otus>
<trees id="T" otus="o"><tree id="t"><node id="n0" root="true"/><node id="n1" otu="o1"/>
<node id="n2" otu="o2"/><edge id="e1" source="n0" target="n1" length="1"/>
<edge id="e2" source="n0" target="n2"/></tree></trees></nex:nexml>
""",
    "ncbi/nodes.dmp": "".join(
        f"{node}\t|\t{parent}\t|\tno rank\t|\t\t|\n" for node, parent in ((1, 1), (2, 1), (30, 2), (4, 2))
    ),
    "ncbi/names.dmp": "".join(
        f"{node}\t|\t{name}\t|\t{unique}\t|\t{kind}\t|\n"
        for node, name, unique, kind in (
            (1, "root", "", "scientific name"),
            (2, "Aves", "", "scientific name"),
            (2, "birds", "", "common name"),
            (30, "Parus", "Parus <tits>", "scientific name"),
            (30, "Parus L., 1758", "", "authority"),
            (4, "Parus", "Parus <others>", "scientific name"),
            (4, '"Parus" of old', "", "synonym"),
        )
    ),
    "ncbi/merged.dmp": "12\t|\t4\t|\n13\t|\t99\t|\n",
}


def write_ontology_files(folder: Path) -> None:
    """Write all of them into a folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
