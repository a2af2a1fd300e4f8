// Package readable writes text for people: names and messages from outside so that each character
// shows, and counted nouns in singular or plural.
package readable
