package dashboards

import (
	"net/http"

	"coalmine/storage"
)

// formatHeader has the format of a request or an answer and the build that it comes from: "1 v0.4.0".
// Who sends none is of before it, or no program of ours.
const formatHeader = "Coalmine-Format"

// requestFormat and answerFormat have the number of the form of the API's JSON. It rises when a
// program of before could misread an answer, or a server a request; members that are added do
// not raise it.
var (
	requestFormat = storage.Format{Name: "request", Number: 1}
	answerFormat  = storage.Format{Name: "answer of the server", Number: requestFormat.Number}
)

func setFormat(h http.Header) { h.Set(formatHeader, answerFormat.Stamp().String()) }

// formatOf is the stamp of a message, zero if it has none.
func formatOf(h http.Header) storage.Stamp { return storage.ParseStamp(h.Get(formatHeader)) }
