package query

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const maxCompletions = 16

// maxLabelSample limits the search for labels to the newest VMs: a completion need not be exhaustive.
const maxLabelSample = 1000

// Completion is a suggestion that replaces the last word of a filter before the caret.
type Completion struct {
	Value string `json:"value"` // replacement for the word, such as "state:running"
	Hint  string `json:"hint,omitempty"`
}

// Complete returns suggestions for the last word of text, which is a filter up to the caret. list is the name of the
// list that is filtered, such as "vms", or "found" for discovered VMs.
func (b *Queries) Complete(ctx context.Context, a fleet.Actor, list, text string) ([]Completion, error) {
	of, known := fleet.ResourceTypeByPlural(list)
	if !known {
		of.See = policy.VMSee
	}
	if err := policy.Check(a, of.See, ""); err != nil {
		return nil, err
	}
	keys := filterKeys(a, of.Key)
	if len(text) > maxSearchText*5 || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return []Completion{}, nil
	}
	word := text[strings.LastIndexAny(text, " \t")+1:]
	not := ""
	if strings.HasPrefix(word, "-") {
		not, word = "-", word[1:]
	}
	key, value, colon := strings.Cut(word, ":")
	if name, rest, equals := strings.Cut(word, "="); equals && !colon {
		if _, known := keys.Find(name); known {
			key, value, colon = name, rest, true
		}
	}
	if !colon {
		return completeFilterKey(keys, not, word), nil
	}
	before := not + key + ":"
	if i := strings.LastIndexByte(value, ','); i >= 0 {
		before, value = before+value[:i+1], value[i+1:]
	}
	k, found := keys.Find(key)
	if !found {
		return []Completion{}, nil
	}
	values, err := b.completeFilterValue(ctx, a, k, value)
	out := make([]Completion, len(values))
	for i, v := range values {
		out[i] = Completion{Value: before + quoteFilterValue(k.Key, v)}
	}
	return out, err
}

// quoteFilterValue quotes a value that contains special characters of the filter syntax. In a label it quotes only the
// part after "=".
func quoteFilterValue(key, value string) string {
	start := ""
	if name, rest, ok := strings.Cut(value, "="); ok && key == "label" {
		start, value = name+"=", rest
	}
	if strings.ContainsAny(value, " ,*:<>") {
		value = `"` + value + `"`
	}
	return start + value
}

func completeFilterKey(keys fleet.FilterKeys, not, word string) []Completion {
	out := []Completion{}
	for _, k := range keys {
		operator := ":"
		if k.Unit != fleet.UnitNone {
			operator = ">"
		}
		if strings.HasPrefix(k.Key, word) || slices.Contains(k.Aliases, word) {
			out = append(out, Completion{Value: not + k.Key + operator, Hint: k.Help})
		}
	}
	return out[:min(len(out), maxCompletions)]
}

// completeFilterValue returns values of a filter key that begin with start.
func (b *Queries) completeFilterValue(ctx context.Context, a fleet.Actor, k fleet.FilterKey, start string) ([]string, error) {
	values := []string{}
	for _, v := range k.Values {
		if strings.HasPrefix(strings.ToLower(v), strings.ToLower(start)) && len(values) < maxCompletions {
			values = append(values, v)
		}
	}
	if k.Values != nil {
		return values, nil
	}
	kind := searchWordKinds[k.Key]
	if kind != "" {
		start = strings.ToLower(start)
	}
	var s statementBuilder
	like := s.addLikePattern(filter.Pattern{start, ""})
	sql := ""
	switch k.Key {
	case "who":
		if strings.HasPrefix("me", start) { //nolint:gocritic // start is the beginning of what is typed: "m"
			values = append(values, "me")
		}
		return values, nil
	case "host":
		if policy.May(a, policy.InfraSee, "") {
			sql = "SELECT name FROM hosts WHERE name LIKE " + like
		}
	case "cluster":
		sql = "SELECT name FROM clusters WHERE name LIKE " + like
	case "pool":
		s.addCondition("p.name LIKE " + like)
		s.wherePoolVisible(a, "")
		sql = "SELECT p.name AS name FROM pools p" + s.whereClause()
	case "network":
		s.addCondition("n.name LIKE " + like)
		s.whereNetworkVisible(a)
		sql = "SELECT n.name AS name FROM networks n" + s.whereClause()
	case "project":
		s.whereProjectVisible(a, "id", "")
		s.addCondition("name LIKE " + like)
		sql = "SELECT name FROM projects" + s.whereClause()
	case "mac", "address":
		if start == "" {
			return values, nil // suggestions without a prefix would only be the lowest addresses
		}
		s.whereVMVisible(a, "")
		s.addCondition("w.kind = '" + kind + "' AND w.word LIKE " + like)
		sql = "SELECT DISTINCT w.word AS name FROM vm_words w JOIN vms v ON v.id = w.vm_id" + s.whereClause()
	case "label":
		s.whereVMVisible(a, "")
		sql = "SELECT DISTINCT l.key || '=' || l.value AS name FROM (SELECT labels FROM vms v" + s.whereClause() +
			" ORDER BY created_at DESC LIMIT " + s.addArg(maxLabelSample) + ") v, jsonb_each_text(v.labels) l WHERE l.key || '=' || l.value LIKE " + like
	}
	if sql == "" {
		return values, nil
	}
	return collectRows(ctx, b, sql+" ORDER BY name LIMIT "+s.addArg(maxCompletions), &s, pgx.RowTo[string])
}
