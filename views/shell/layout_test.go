package shell

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestHtmxCopiesNoStyleAttributes checks that htmx does not copy style attributes while it settles new elements. The
// content security policy forbids them, but browsers write them when a user resizes a text area.
func TestHtmxCopiesNoStyleAttributes(t *testing.T) {
	t.Parallel()
	var config struct{ AttributesToSettle []string }
	if err := json.Unmarshal([]byte(htmxConfig), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.AttributesToSettle) == 0 || slices.Contains(config.AttributesToSettle, "style") {
		t.Errorf("htmx copies %v", config.AttributesToSettle)
	}
}
