package query

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"quantix/internal/filter"
)

// The table vm_words contains the search words of VMs: MAC addresses, IP addresses and labels. Names and IDs are
// searched in the table vms.

// searchWordKinds maps filter keys to the kind of search word in vm_words.
var searchWordKinds = map[string]string{"mac": "mac", "address": "ip"}

// matchesWordSQL returns the condition that the VM has a matching search word of the kind. Indexes support exact words,
// prefixes and trigrams.
func (s *statementBuilder) matchesWordSQL(negate bool, kind string, any []filter.Match) string {
	return "EXISTS (SELECT 1 FROM vm_words w WHERE w.vm_id = v.id AND w.kind = '" + kind + "' AND " + s.matchTextByTrigrams(negate, "w.word", any) + ")"
}

// Trigrams contain markers for the start and the end of a word.
const (
	wordStartMarker, wordEndMarker = "\x02", "\x03"
	trigramLength                  = 3
)

// patternTrigrams returns the trigrams that every word matching the pattern contains, as pieces_of in SQL computes
// them, without duplicates. It is empty for a prefix, for which the ordered index is used, and for parts that are
// shorter than a trigram.
func patternTrigrams(p filter.Pattern) []string {
	if len(p) == 2 && p[1] == "" {
		return nil
	}
	var found []string
	for i, part := range p {
		if i == 0 {
			part = wordStartMarker + part
		}
		if i == len(p)-1 {
			part += wordEndMarker
		}
		text := []rune(part)
		for i := range len(text) - trigramLength + 1 {
			if trigram := string(text[i : i+trigramLength]); !slices.Contains(found, trigram) {
				found = append(found, trigram)
			}
		}
	}
	return found
}

// vmLabelsSQL returns the condition that one of a VM's labels matches. Exact labels are checked in the VM's row, which
// is fastest together with other conditions. Patterns are checked in vm_words.
func (s *statementBuilder) vmLabelsSQL(negate bool, any []filter.Match) string {
	var exactLabels, prefixes []filter.Match
	for _, m := range any {
		if _, exact := m.ExactText(); exact {
			exactLabels = append(exactLabels, m)
			continue
		}
		word := slices.Clone(m.Pattern)
		word[0] = m.Label + "=" + word[0]
		prefixes = append(prefixes, filter.Match{Pattern: word})
	}
	switch {
	case len(prefixes) == 0:
		return s.matchLabels("v.labels", exactLabels)
	case len(exactLabels) == 0:
		return s.matchesWordSQL(negate, "label", prefixes)
	}
	return s.matchLabels("v.labels", exactLabels) + " OR " + s.matchesWordSQL(negate, "label", prefixes)
}

var (
	macPrefixPattern     = regexp.MustCompile(`^([0-9a-f]{2}-){1,5}[0-9a-f]{0,2}$`)
	addressPrefixPattern = regexp.MustCompile(`^[0-9a-f.:]+$`)
)

// normalizeSearchWord converts text that a user typed to the form of search words. MAC addresses get colons, complete IP
// addresses their canonical form, and everything except a label's value is in lower case.
func normalizeSearchWord(text string) string {
	if key, value, ok := strings.Cut(text, "="); ok {
		return strings.ToLower(key) + "=" + value
	}
	folded := strings.ToLower(text)
	if mac, err := net.ParseMAC(folded); err == nil {
		return mac.String()
	}
	if ip, err := netip.ParseAddr(folded); err == nil {
		return ip.String()
	}
	if macPrefixPattern.MatchString(folded) {
		return strings.ReplaceAll(folded, "-", ":")
	}
	return folded
}
