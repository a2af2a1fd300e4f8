// Package encoding reads and writes JSON and YAML if encoding/json and the YAML library are not
// strict enough: JSON members exactly as written, JSON objects in order, and YAML from outside.
package encoding
