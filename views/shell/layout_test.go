package shell

import (
	"encoding/json"
	"slices"
	"testing"
)

// htmx carries what it settles from an old element to a new one. The content security policy forbids style attributes, which browsers
// write themselves where somebody makes a text area larger.
func TestHtmxCopiesNoStyle(t *testing.T) {
	t.Parallel()
	var config struct{ AttributesToSettle []string }
	if err := json.Unmarshal([]byte(htmxConfig), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.AttributesToSettle) == 0 || slices.Contains(config.AttributesToSettle, "style") {
		t.Errorf("htmx copies %v", config.AttributesToSettle)
	}
}
