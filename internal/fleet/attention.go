package fleet

import (
	"regexp"
	"strings"
	"time"
)

// AttentionCause is one cause for which objects of a resource type need the user's attention.
type AttentionCause struct {
	Kind     string            `json:"kind"` // a ResourceType, or "certificate" for the portal's own certificate
	ID       string            `json:"id"`   // first object; empty: none is named
	Name     string            `json:"name"` // name of the first object
	Severity Severity          `json:"severity"`
	Text     string            `json:"text"`             // description that applies to all objects
	Remedy   string            `json:"remedy,omitempty"` // how to fix it; empty: unknown
	Count    int               `json:"count"`            // number of objects
	Objects  []AttentionObject `json:"objects"`          // first objects, at most AttentionNames
	List     string            `json:"list,omitempty"`   // path of the list of all objects; empty: none
	At       *time.Time        `json:"at,omitempty"`
	// HasAlarm says that a default alarm rule raises an alarm for the cause.
	HasAlarm bool `json:"-"`
}

// AttentionObject is one object that needs attention.
type AttentionObject struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // description for this object
}

// AttentionNames is the maximum number of objects named per cause.
const AttentionNames = 20

// RedactNames returns the text with each name replaced by "…" where it is a whole word.
func RedactNames(text string, names ...string) string {
	for _, name := range names {
		if name != "" && strings.Contains(text, name) {
			text = regexp.MustCompile(`(^|[^\pL\pN])`+regexp.QuoteMeta(name)+`($|[^\pL\pN])`).ReplaceAllString(text, "${1}…${2}")
		}
	}
	return text
}
