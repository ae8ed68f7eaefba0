package diagnose

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// removed replaces secrets.
const removed = "[removed]"

// secretWords are parts of names whose values are secrets. A line without such a word is not searched for names.
var secretWords = []string{
	"passw", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "private", "accesskey", "access_key", "access-key", "credential",
	"authorization", "cookie", "chap", "keyring", "bearer", "basic", "session", "ticket",
}

const (
	secretWord = `(?:passw|passphrase|pwd|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|credential|authorization|cookie|chap|keyring|session|ticket)[\w.-]*`
	secretName = `[\w.-]*` + secretWord
	anyValue   = `(?:\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;&<>"']+)`
)

var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
	// keyEnd is the end of a private key whose beginning is missing, because only the end of a log was read.
	keyEnd   = regexp.MustCompile(`(?s)\A[A-Za-z0-9+/=\s]*-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	userInfo = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^/\s"'<>]*@`)
	tokens   = regexp.MustCompile(`\bqx[a-z]{0,4}_[A-Za-z0-9_-]{8,}(?:\.[0-9a-f]{16,})?`)
	cephKey  = regexp.MustCompile(`\bAQ[A-Za-z0-9+/]{36,38}={0,2}`)

	authScheme = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`)
	yamlValue  = regexp.MustCompile(`(?i)^(\s*(?:-\s+)?["']?` + secretName + `["']?\s*:\s+)\S.*$`)
	assignment = regexp.MustCompile(`(?i)(` + secretWord + `\\?["']?\s*[:=]\s*)` + anyValue)
	flag       = regexp.MustCompile(`(?i)(--?` + secretName + `\s+)` + anyValue)
	element    = regexp.MustCompile(`(?i)(<` + secretName + `(?:\s[^<>]*)?>)[^<]+`)
)

// Scrubber removes secrets from texts.
type Scrubber struct{ known *strings.Replacer }

// NewScrubber returns a Scrubber that also removes these known values: plain, quoted, and encoded in URLs or base64.
// It ignores values of less than 6 characters, which texts may contain by chance.
func NewScrubber(known []string) Scrubber {
	var all []string
	for _, v := range known {
		if v = strings.TrimSpace(v); len(v) < 6 {
			continue
		}
		quoted := strconv.Quote(v)
		all = append(all, v, quoted[1:len(quoted)-1], url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v)))
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(all))
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, removed)
	}
	return Scrubber{strings.NewReplacer(pairs...)}
}

// Scrub returns the text without secrets: the known values, private keys, tokens of Quantix, keys of Ceph, user and password
// in URLs, and the values of names such as password, secret and token.
func (s Scrubber) Scrub(text string) string {
	if s.known != nil {
		text = s.known.Replace(text)
	}
	text = privateKey.ReplaceAllLiteralString(text, removed)
	text = keyEnd.ReplaceAllLiteralString(text, removed)
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		b.WriteString(scrubLine(line))
	}
	return b.String()
}

func scrubLine(line string) string {
	body, end := line, ""
	if strings.HasSuffix(line, "\n") {
		body, end = line[:len(line)-1], "\n"
	}
	if strings.Contains(body, "://") {
		body = userInfo.ReplaceAllString(body, "${1}"+removed+"@")
	}
	if strings.Contains(body, "qx") {
		body = tokens.ReplaceAllLiteralString(body, removed)
	}
	if strings.Contains(body, "AQ") {
		body = cephKey.ReplaceAllLiteralString(body, removed)
	}
	lower := strings.ToLower(body)
	if !slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(lower, w) }) {
		return body + end
	}
	if strings.Contains(lower, "bearer") || strings.Contains(lower, "basic") {
		body = authScheme.ReplaceAllString(body, "${1} "+removed)
	}
	if strings.Contains(body, ": ") && yamlValue.MatchString(body) {
		return yamlValue.ReplaceAllString(body, "${1}"+removed) + end
	}
	if strings.Contains(body, "<") {
		body = element.ReplaceAllString(body, "${1}"+removed)
	}
	if strings.ContainsAny(body, ":=") {
		body = assignment.ReplaceAllString(body, "${1}"+removed)
	}
	if !strings.Contains(body, "-") {
		return body + end
	}
	return flag.ReplaceAllString(body, "${1}"+removed) + end
}
