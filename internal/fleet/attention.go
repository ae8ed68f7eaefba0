package fleet

import (
	"regexp"
	"strings"
	"time"
)

// Attention is one cause for which objects of a kind need attention.
type Attention struct {
	Kind     string            `json:"kind"` // a noun, or "certificate": of the portal itself
	ID       string            `json:"id"`   // of the first object; empty: none is named
	Name     string            `json:"name"` // likewise
	Severity Severity          `json:"tone"`
	Text     string            `json:"text"`             // what is wrong, as it holds for all of the objects
	Remedy   string            `json:"remedy,omitempty"` // what mends it; empty: not known
	Count    int               `json:"count"`            // of the objects
	Objects  []AttentionObject `json:"objects"`          // the first of them, at most AttentionNames
	List     string            `json:"list,omitempty"`   // path of the list of them all; empty: there is none
	At       *time.Time        `json:"at,omitempty"`
}

// AttentionObject is one object that needs attention.
type AttentionObject struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // detail of this object: "on host-1, 97 % used"
}

// AttentionNames is how many objects of one cause are named.
const AttentionNames = 20

// Causes groups objects that need attention, one row for each cause.
type Causes struct {
	Rows []Attention
	at   map[string]int // index in Rows by kind, tone and text, with and without the objects' names
}

// Add counts the row's objects to the row with the same cause: the same kind, tone and text, with or without the
// objects' own names.
func (c *Causes) Add(row Attention) {
	general := row.Text
	for _, o := range row.Objects {
		general = Nameless(general, o.Name, o.ID)
	}
	key := func(text string) string { return row.Kind + "\n" + string(row.Severity) + "\n" + text }
	i, same := c.at[key(row.Text)]
	alike := same
	if !same {
		i, alike = c.at[key(general)]
	}
	if !alike {
		if c.at == nil {
			c.at = map[string]int{}
		}
		c.at[key(row.Text)], c.at[key(general)] = len(c.Rows), len(c.Rows)
		c.Rows = append(c.Rows, row)
		return
	}
	r := &c.Rows[i]
	if r.Count += row.Count; !same {
		r.Text = general
	}
	if room := AttentionNames - len(r.Objects); room > 0 {
		r.Objects = append(r.Objects, row.Objects[:min(room, len(row.Objects))]...)
	}
}

// Nameless is the text with "…" in the place of the names, where they stand as words.
func Nameless(text string, names ...string) string {
	for _, name := range names {
		if name != "" && strings.Contains(text, name) {
			text = regexp.MustCompile(`(^|[^\pL\pN])`+regexp.QuoteMeta(name)+`($|[^\pL\pN])`).ReplaceAllString(text, "${1}…${2}")
		}
	}
	return text
}
