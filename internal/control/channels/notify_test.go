package channels

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A result that the database refuses would be tried for ever.
func TestErrorsOfReceiversCanBeStored(t *testing.T) {
	t.Parallel()
	got := storableText("a\x00b\xff" + strings.Repeat("ä", 3000))
	if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > maxErrorBytes || !strings.HasPrefix(got, "abä") {
		t.Errorf("%.20q, %d bytes", got, len(got))
	}
}
