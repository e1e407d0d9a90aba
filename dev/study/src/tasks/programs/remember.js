const file = await mcp.call("files.read_text_file", {path: "/data/people.json"});
const people = JSON.parse(file.content);
await mcp.call("memory.create_entities", {
  entities: people.map(({name, role}) => ({name, entityType: "person", observations: [`role: ${role}`]})),
});
const relations = people
  .filter((person) => person.manager)
  .map(({name, manager}) => ({from: name, to: manager, relationType: "reports_to"}));
await mcp.call("memory.create_relations", {relations});
return {people: people.length, relations: relations.length};
