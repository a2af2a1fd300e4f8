package dashboards

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/encoding"
)

// openAPI is the document of the API without its paths, for generators of clients; docs/api.md
// describes the API for readers.
//
//go:embed openapi.yaml
var openAPI []byte

func (s *Server) showDocument(w http.ResponseWriter, _ *http.Request) error {
	document, err := s.document()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", fileType)
	send(w, document)
	return nil
}

// document returns openAPI with the paths of the operations.
func document(endpoints []endpoint) ([]byte, error) {
	paths := map[string]map[string]any{}
	for _, e := range endpoints {
		for _, d := range e.variants() {
			path := apiPath + d.path()
			if paths[path] == nil {
				paths[path] = map[string]any{}
			}
			paths[path][strings.ToLower(d.method())] = d.document()
		}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	text, err := encoding.YAMLFromJSON(data)
	return slices.Concat(openAPI, text), err
}

// object is a part of the document.
type object = map[string]any

func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// inPath finds the parameters of a path.
var inPath = regexp.MustCompile(`\{(\w+)\}`)

// document describes an operation.
func (d *description) document() object {
	responses := object{"200": answerOf(d.answer, d.gives), "default": reference("responses", "Error")}
	if d.created != "" {
		responses["201"] = answerOf(d.created, d.gives)
	}
	operation := object{"operationId": d.id, "summary": d.summary, "responses": responses}
	if d.operator {
		operation["description"] = "Needs the operator's token where the server has tokens."
	}
	if d.takes != "" {
		operation["requestBody"] = object{"required": true, "content": contentOf(d.takes)}
	}
	var parameters []object
	for _, name := range inPath.FindAllStringSubmatch(d.path(), -1) {
		parameters = append(parameters, reference("parameters", name[1]))
	}
	for name := range strings.FieldsSeq(d.query) {
		parameters = append(parameters, reference("parameters", name))
	}
	if parameters != nil {
		operation["parameters"] = parameters
	}
	return operation
}

func answerOf(description, gives string) object {
	answer := object{"description": description}
	if gives != "" {
		answer["content"] = contentOf(gives)
	}
	return answer
}

// contentOf describes bodies, each by its media type or the name of its schema.
func contentOf(bodies string) object {
	content := object{}
	for body := range strings.FieldsSeq(bodies) {
		if strings.Contains(body, "/") {
			content[body] = object{}
		} else {
			content[jsonType] = object{"schema": reference("schemas", body)}
		}
	}
	return content
}
