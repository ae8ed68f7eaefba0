package docs

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hit is a section that matches a search.
type Hit struct {
	Chapter *Chapter
	Section Section
	Excerpt string // part of the section's text around the first match
}

const (
	maxWords   = 8
	aroundWord = 60 // bytes of an excerpt on each side
)

// commonWords are ignored in a search, since they occur in most sections.
var commonWords = strings.Fields("a an and another are be can do does for from get how i if in into is it must my of on or other the there to what when where which why with")

// synonyms maps words of queries to synonyms that the manual uses.
var synonyms = map[string][]string{
	"add": {"create", "new"}, "create": {"add", "new"}, "new": {"create", "add"}, "make": {"create", "add"}, "delete": {"remove"}, "remove": {"delete", "release"},
	"upgrade": {"update"}, "update": {"upgrade"}, "machine": {"vm", "host"}, "server": {"host"}, "datastore": {"pool"}, "disk": {"volume"}, "vms": {"vm"}, "ip": {"address"}, "ips": {"address"},
	"resize": {"grow"}, "enlarge": {"grow"}, "expand": {"grow"}, "migrate": {"move"}, "move": {"migration"}, "down": {"away"}, "quota": {"limit"},
	"right": {"permission", "role"}, "colleague": {"user", "member"}, "invite": {"add"}, "login": {"sign"}, "two-factor": {"factor"}, "2fa": {"factor"}, "mfa": {"factor"}, "ldap": {"single"}, "sso": {"single"}, "saml": {"single"},
	"died": {"restore"}, "dead": {"restore"}, "disaster": {"restore"}, "recovery": {"restore"}, "recover": {"restore"}, "firewall": {"port"}, "grafana": {"prometheus"}, "hotplug": {"hot-plug"}, "reboot": {"restart"}, "extend": {"grow"}, "required": {"needs"},
	"ha": {"availability"},
}

// Search returns at most limit sections, the best first. A match in the heading counts most, then a match in the
// chapter's title, then a match in the text. A section must contain at least two thirds of the words, or fewer if no
// section contains as many.
func (m *Manual) Search(text string, limit int) []Hit {
	words := queryWords(text)
	if len(words) == 0 {
		return nil
	}
	type scored struct {
		Hit
		score float64
	}
	var all []scored
	for least := max(1, (2*len(words)+2)/3); len(all) == 0 && least > 0; least-- {
		for _, g := range m.Groups {
			for _, c := range g.Chapters {
				for _, s := range c.Sections {
					if found, score := s.scoreFor(c.Title, words); found >= least {
						all = append(all, scored{Hit{Chapter: c, Section: s}, score * float64(found*found)})
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(x, y scored) int { return cmp.Compare(y.score, x.score) })
	hits := make([]Hit, min(limit, len(all)))
	for i := range hits {
		hits[i] = all[i].Hit
		hits[i].Excerpt = excerptAround(hits[i].Section.text, words)
	}
	return hits
}

// queryWord holds the stem of one word of a query, and the stems of its synonyms. A stem matches the beginning of a
// word, so that "hosts" finds "host".
type queryWord []string

// queryWords returns the words of a query in lower case, without common words. If the query has only common words, it
// returns the common words.
func queryWords(text string) []queryWord {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("?!,;\"'()", r) })
	kept := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(commonWords, w) })
	if len(kept) == 0 {
		kept = all
	}
	words := make([]queryWord, min(len(kept), maxWords))
	for i := range words {
		words[i] = queryWord{wordStem(kept[i])}
		for _, same := range append(synonyms[kept[i]], synonyms[strings.TrimSuffix(kept[i], "s")]...) {
			words[i] = append(words[i], wordStem(same))
		}
	}
	return words
}

// wordStem removes the English ending of a word, since a search compares the beginnings of words.
func wordStem(w string) string {
	for _, ending := range []string{"ing", "ed", "es", "e"} {
		if short, ok := strings.CutSuffix(w, ending); ok && len(short) >= 3 {
			return short
		}
	}
	if short, ok := strings.CutSuffix(w, "s"); ok && len(short) >= 3 && !strings.HasSuffix(short, "s") {
		return short
	}
	return w
}

// scoreFor counts the words that the section contains, and weighs them by their position. Matches in a long text count
// less, since they are often accidental.
func (s Section) scoreFor(chapter string, words []queryWord) (found int, score float64) {
	title, chapter, text := strings.ToLower(s.Title), strings.ToLower(chapter), strings.ToLower(s.text)
	exact := 0
	for _, w := range words {
		points := 0.0
		if wordPosition(title, w[0]) >= 0 {
			points += 12
			exact++
		} else if w.firstPosition(title) >= 0 {
			points += 6
		}
		if w.firstPosition(chapter) >= 0 {
			points += 4
		}
		if n := w.countMatches(text); n > 0 {
			points += float64(min(n, 4)) / (1 + float64(len(text))/1200)
		}
		if points > 0 {
			found++
			score += points
		}
	}
	if exact == len(words) {
		score += 12 // the query is a heading
	}
	return found, score
}

// firstPosition returns the first position in text of one of the word's stems; -1: none.
func (w queryWord) firstPosition(text string) int {
	first := -1
	for _, begun := range w {
		if at := wordPosition(text, begun); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

func (w queryWord) countMatches(text string) int {
	n := 0
	for _, begun := range w {
		n += countWordsWithPrefix(text, begun)
	}
	return n
}

// wordPosition returns the position of the first word in text that has the prefix; -1: none.
func wordPosition(text, prefix string) int {
	for from := 0; ; {
		at := strings.Index(text[from:], prefix)
		if at < 0 {
			return -1
		}
		at += from
		if before, _ := utf8.DecodeLastRuneInString(text[:at]); at == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return at
		}
		from = at + 1
	}
}

func countWordsWithPrefix(text, prefix string) int {
	n := 0
	for at := wordPosition(text, prefix); at >= 0; at = wordPosition(text, prefix) {
		n++
		text = text[at+len(prefix):]
	}
	return n
}

func excerptAround(text string, words []queryWord) string {
	at := -1
	for _, w := range words {
		if i := w.firstPosition(strings.ToLower(text)); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	from, to := max(0, at-aroundWord), min(len(text), max(0, at)+2*aroundWord)
	out := strings.ToValidUTF8(text[from:to], "")
	if _, rest, ok := strings.Cut(out, " "); ok && from > 0 {
		out = "… " + rest
	}
	if to < len(text) {
		if cut := strings.LastIndexByte(out, ' '); cut > 0 {
			out = out[:cut]
		}
		out += " …"
	}
	return out
}
