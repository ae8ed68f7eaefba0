package usage

import (
	"time"

	"quantix/internal/fleet"
)

// ExpiringVM is a VM that expires soon.
type ExpiringVM struct {
	ID        fleet.VMID
	Name      string
	ExpiresAt time.Time
	Stops     bool // the VM is shut down when it expires
}
