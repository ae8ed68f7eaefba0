package config

import (
	"fmt"
	"strings"
)

// didYouMean suggests the most similar of the names, as "; did you mean "listen"?", or nothing where none is near.
func didYouMean(name string, names []string) string {
	best, bestDistance := "", len(name)/3+1
	for _, candidate := range names {
		if d := distance(plain(name), plain(candidate)); d <= bestDistance {
			if d < bestDistance || best == "" {
				best, bestDistance = candidate, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// plain makes data-dir, data_dir and dataDir one.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// distance is how many letters must be added, removed or replaced to make one text of the other.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range to {
			replace := diagonal
			if x != y {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(to)]
}
