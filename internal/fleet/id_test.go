package fleet_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDsAreUniqueAndContainCreationTime(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMilli()
	seen := map[fleet.VMID]bool{}
	for range 1000 {
		id := fleet.NewID[fleet.VMID]()
		if !uuid7.MatchString(string(id)) || seen[id] {
			t.Fatalf("%q is not a version 7 UUID, or not unique", id)
		}
		seen[id] = true
		born, err := strconv.ParseInt(strings.ReplaceAll(string(id), "-", "")[:12], 16, 64)
		if now := time.Now().UnixMilli(); err != nil || born < before || born > now {
			t.Fatalf("%q contains time %d, %v, want one between %d and %d", id, born, err, before, now)
		}
	}
}
