package kit

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// cachedMarkup is markup that is the same on every page. It is rendered only once, because a list holds hundreds of
// icons and chips.
type cachedMarkup string

// Render writes the cached markup.
func (d cachedMarkup) Render(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, string(d))
	return err
}

// markupCache caches rendered markup by key. The keys are constants in the templates, so the cache stays small.
type markupCache[K comparable] struct {
	mu       sync.RWMutex
	rendered map[K]templ.Component
}

func (s *markupCache[K]) get(key K, draw func() templ.Component) templ.Component {
	s.mu.RLock()
	d, ok := s.rendered[key]
	s.mu.RUnlock()
	if ok {
		return d
	}
	var out strings.Builder
	if err := draw().Render(context.Background(), &out); err != nil {
		return draw() // an uncached component reports the error when rendered
	}
	d = cachedMarkup(out.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rendered == nil {
		s.rendered = map[K]templ.Component{}
	}
	s.rendered[key] = d
	return d
}

var (
	iconCache      markupCache[iconKey]
	phaseChipCache markupCache[fleet.Phase]
)

type iconKey struct{ name, first, second string }

// Icon renders an icon of the sprite. class adds a tone, "lg" or "spin".
func Icon(name string, class ...string) templ.Component {
	key := iconKey{name: name}
	switch len(class) {
	case 0:
	case 1:
		key.first = class[0]
	case 2:
		key.first, key.second = class[0], class[1]
	default:
		return icon(name, class)
	}
	return iconCache.get(key, func() templ.Component { return icon(name, []string{key.first, key.second}) })
}
