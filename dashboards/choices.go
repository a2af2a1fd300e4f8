package dashboards

import (
	"fmt"
	"net/http"

	"coalmine/workflows/control"
)

// choiceHeader has a name that fits several runs, the chosen run, and the number of matches.
const choiceHeader = "Coalmine-Chosen"

func setChoice(h http.Header, c control.Choice) {
	h.Set(choiceHeader, fmt.Sprintf("%s %s %d", c.Name, c.Run, c.Fits)) // names are the beginnings of ids
}

// readChoice reads the header of setChoice, if present.
func readChoice(h http.Header) (c control.Choice, there bool) {
	_, err := fmt.Sscanf(h.Get(choiceHeader), "%s %s %d", &c.Name, &c.Run, &c.Fits)
	return c, err == nil
}
