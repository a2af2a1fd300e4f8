package dashboards

import (
	"fmt"
	"net/http"

	"coalmine/storage"
	"coalmine/workflows/control"
)

// formatHeader holds the format of a request or an answer and the build of its sender: "1 v0.4.0".
// Older builds and other programs omit it.
const formatHeader = "Coalmine-Format"

// requestFormat and answerFormat have the format number of the API's JSON. It rises when an older
// program could misread an answer, or an older server a request; new members do not raise it.
var (
	requestFormat = storage.Format{Name: "request", Number: 1}
	answerFormat  = storage.Format{Name: "answer of the server", Number: requestFormat.Number}
)

func setFormat(h http.Header) { h.Set(formatHeader, answerFormat.Stamp().String()) }

// formatOf returns the stamp of a message, zero if it has none.
func formatOf(h http.Header) storage.Stamp { return storage.ParseStamp(h.Get(formatHeader)) }

// choiceHeader holds a name that fits several runs, the chosen run, and the number of matches.
const choiceHeader = "Coalmine-Chosen"

func setChoice(h http.Header, c control.Choice) {
	h.Set(choiceHeader, fmt.Sprintf("%s %s %d", c.Name, c.Run, c.Fits)) // names are the beginnings of ids
}

// readChoice reads the header of setChoice, if present.
func readChoice(h http.Header) (c control.Choice, there bool) {
	_, err := fmt.Sscanf(h.Get(choiceHeader), "%s %s %d", &c.Name, &c.Run, &c.Fits)
	return c, err == nil
}
