package datasets

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// SimilarUsers counts the names of users that differ from another name only in white space around
// them or in their Unicode form. Each counts as a separate user.
type SimilarUsers struct {
	Names int `json:"names"`
	// Name is the first of them, and Other the name that it resembles.
	Name  string `json:"name"`
	Other string `json:"other"`
}

// similarUsers compares distinct names of users, in the order of the source.
func similarUsers(names []string) (found SimilarUsers) {
	seen := make(map[string]string) // by the form of the name, if a name differs from its form
	for _, name := range names {
		if form := userForm(name); form != name {
			seen[form] = ""
		}
	}
	if len(seen) == 0 {
		return found
	}
	for _, name := range names {
		form := userForm(name)
		other, differs := seen[form]
		switch {
		case !differs:
		case other == "":
			seen[form] = name
		default:
			if found.Names++; found.Names == 1 {
				found.Name, found.Other = name, other
			}
		}
	}
	return found
}

func userForm(name string) string { return norm.NFC.String(strings.TrimSpace(name)) }
