// Package redact removes passwords from text that people read: errors, log lines, answers of the API.
package redact

import "regexp"

// withPassword is the beginning of an address with a password: scheme://user:password@.
var withPassword = regexp.MustCompile(`(://[^/\s"@:]*:)[^/\s"]*@`)

// HasPassword reports whether a text has an address with a password.
func HasPassword(text string) bool { return withPassword.MatchString(text) }

// Passwords returns a text with *** in place of each password in an address.
func Passwords(text string) string { return withPassword.ReplaceAllString(text, "${1}***@") }
