// This file finds the intended word for a mistyped one.

package readable

// LikelyEdits returns the maximum number of edits between a mistyped word and the intended one:
// 1 for short words, which have many neighbours.
func LikelyEdits(word string) int { return min(max(1, len(word)/4), 3) }

// DidYouMean ends a message with a suggestion, if there is one.
func DidYouMean(suggestion string) string {
	if suggestion == "" {
		return ""
	}
	return "; did you mean " + suggestion + "?"
}

// Edits returns Levenshtein's distance in bytes, with a swap of two neighbours as one edit. It
// returns a large number for very long words.
func Edits(a, b string) int {
	if len(a) > 100 {
		return len(a)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// Nearest returns the most similar word of a list, "" if none is similar enough.
func Nearest(mistyped string, words []string) string {
	best, distance := "", LikelyEdits(mistyped)+1
	for _, word := range words {
		if d := Edits(mistyped, word); d < distance {
			best, distance = word, d
		}
	}
	return best
}
