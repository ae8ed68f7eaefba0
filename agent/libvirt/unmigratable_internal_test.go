package libvirt

import (
	"errors"
	"testing"

	"quantix/internal/fleet"
)

func TestReasonAgainstMigrationIsSentence(t *testing.T) {
	t.Parallel()
	const fixed = "Quantix cannot check the VM's definition, so the VM stays on this host."
	for want, err := range map[string]error{
		"": nil, fixed: errors.New("XML syntax error on line 3: unexpected EOF"), "The VM's definition has a host device.": fleet.Errorf(fleet.Conflict, "The VM's definition has a host device."),
	} {
		if is := unmigratableReason(err); is != want {
			t.Errorf("the reason for %v is %q, want %q", err, is, want)
		}
	}
}
