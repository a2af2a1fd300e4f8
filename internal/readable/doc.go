// Package readable writes text for people: names and messages from outside with every character
// visible, and counted nouns in singular or plural.
package readable
