package dashboards

import (
	"encoding/json"
	"fmt"
)

// License is the licence of a package that the page's build holds.
type License struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Identifier is that of SPDX: "MIT".
	Identifier string `json:"identifier"`
	Text       string `json:"text"`
}

// Licenses returns the licences of the packages in the page, as its build listed them.
func Licenses() ([]License, error) {
	list, err := web.ReadFile("web/app/licenses.json")
	if err != nil {
		return nil, err
	}
	var licenses []License
	if err := json.Unmarshal(list, &licenses); err != nil {
		return nil, fmt.Errorf("web/app/licenses.json: %w", err)
	}
	return licenses, nil
}
