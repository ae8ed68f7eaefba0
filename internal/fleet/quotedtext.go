package fleet

// QuotedText is a text without its quotation marks. It marks the characters that were outside the quotation marks.
type QuotedText struct {
	Text  []rune
	Plain []bool // for each character: outside quotation marks, where it may be an operator
}

func (q QuotedText) String() string { return string(q.Text) }

// With returns the text with one more character.
func (q QuotedText) With(r rune, plain bool) QuotedText {
	return QuotedText{append(q.Text, r), append(q.Plain, plain)}
}

// From returns the text from the character with the index at.
func (q QuotedText) From(at int) QuotedText { return QuotedText{q.Text[at:], q.Plain[at:]} }

// Until returns the text before the character with the index at.
func (q QuotedText) Until(at int) QuotedText { return QuotedText{q.Text[:at], q.Plain[:at]} }

// CutAtUnquoted splits at the first unquoted sep.
func (q QuotedText) CutAtUnquoted(sep rune) (before, after QuotedText, found bool) {
	for i, r := range q.Text {
		if r == sep && q.Plain[i] {
			return q.Until(i), q.From(i + 1), true
		}
	}
	return q, QuotedText{}, false
}
