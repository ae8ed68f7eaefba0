package host

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// The memory section names the missing memory and threads if the NUMA nodes do not add up to those of the host.
func TestMemorySectionNamesMissingMemoryAndThreads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/numa.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Name string   `json:"name"`
		Says []string `json:"says"`
		fleet.Inventory
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	for _, r := range recorded {
		if got := numaGaps(r.Inventory); !slices.Equal(got, r.Says) {
			t.Errorf("%s: %q, want %q", r.Name, got, r.Says)
		}
		var page strings.Builder
		if err := memoryCard(r.Inventory).Render(t.Context(), &page); err != nil {
			t.Fatal(err)
		}
		for _, says := range r.Says {
			if !strings.Contains(strings.ReplaceAll(page.String(), "&#39;", "'"), says) {
				t.Errorf("%s: the section lacks %q:\n%s", r.Name, says, page.String())
			}
		}
	}
}
