package agent

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// maxSecrets is how many secrets a secretBook remembers.
const maxSecrets = 256

// secretBook remembers the newest secrets that the portal sent, in memory only, so that they can be removed from texts for
// people: a hypervisor's error may repeat one.
type secretBook struct {
	mu     sync.Mutex
	values []string
}

func (b *secretBook) add(values ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		if v != "" && !slices.Contains(b.values, v) {
			b.values = append(b.values, v)
		}
	}
	if n := len(b.values) - maxSecrets; n > 0 {
		b.values = slices.Clone(b.values[n:])
	}
}

func (b *secretBook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.values)
}

// knownSecrets returns the secrets that no text for people may have: those of the book, the lines of the agent's key and the
// session with the portal.
func (a *Agent) knownSecrets() []string {
	out := append(a.secrets.all(), a.client.Session())
	text, err := os.ReadFile(filepath.Join(a.identity.dir, keyFile))
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "-----") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	if block, _ := pem.Decode(text); block != nil {
		out = append(out, string(block.Bytes))
	}
	return out
}
