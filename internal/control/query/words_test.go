package query

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A word that matches a pattern must contain all the pattern's pieces, or the index would miss it.
func TestPiecesInSQLArePiecesInGo(t *testing.T) {
	pool := testkit.DB(t)
	inSQL := func(t *rapid.T, word string) (pieces []string) {
		if err := pool.QueryRow(t.Context(), "SELECT pieces_of($1)", word).Scan(&pieces); err != nil {
			t.Fatal(err)
		}
		return pieces
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("ab1.:-ä=語")), 0, 12, -1).Draw(t, "word")
		have := inSQL(t, word)
		of := slices.Sorted(slices.Values(pieces(fleet.Pattern{word})))
		if want := slices.Compact(slices.Sorted(slices.Values(have))); !slices.Equal(of, want) {
			t.Fatalf("%q has the pieces %q in SQL, %q in Go", word, want, of)
		}
		text := []rune(word)
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		part := string(text[from:to])
		for _, p := range []fleet.Pattern{{"", part, ""}, {string(text[:from]), string(text[to:])}, {"", string(text[from:])}, {string(text[:to]), ""}} {
			if !p.Matches(word) {
				t.Fatalf("%q does not fit %q", p, word)
			}
			for _, piece := range pieces(p) {
				if !slices.Contains(have, piece) {
					t.Fatalf("%q fits %s, whose piece %q is none of %q", word, strings.Join(p, "*"), piece, have)
				}
			}
		}
	})
}
