package query

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantix/internal/filter"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A word that matches a pattern must contain all trigrams of the pattern, as SQL computes them. Otherwise the index
// would not find the word.
func TestTrigramsInSQLEqualTrigramsInGo(t *testing.T) {
	pool := testkit.DB(t)
	inSQL := func(t *rapid.T, word string) (found []string) {
		if err := pool.QueryRow(t.Context(), "SELECT pieces_of($1)", word).Scan(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("ab1.:-ä=語")), 0, 12, -1).Draw(t, "word")
		have := inSQL(t, word)
		inGo := slices.Sorted(slices.Values(patternTrigrams(filter.Pattern{word})))
		if want := slices.Compact(slices.Sorted(slices.Values(have))); !slices.Equal(inGo, want) {
			t.Fatalf("%q has the trigrams %q in SQL, %q in Go", word, want, inGo)
		}
		text := []rune(word)
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		part := string(text[from:to])
		for _, p := range []filter.Pattern{{"", part, ""}, {string(text[:from]), string(text[to:])}, {"", string(text[from:])}, {string(text[:to]), ""}} {
			if !p.Matches(word) {
				t.Fatalf("%q does not fit %q", p, word)
			}
			for _, trigram := range patternTrigrams(p) {
				if !slices.Contains(have, trigram) {
					t.Fatalf("%q fits %s, whose trigram %q is not in %q", word, strings.Join(p, "*"), trigram, have)
				}
			}
		}
	})
}
