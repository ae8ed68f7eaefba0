package vm

import (
	"time"

	"quantix/internal/fleet"
)

// FoundPage is a VM that Quantix did not make.
type FoundPage struct {
	VM  fleet.FoundVM
	Now time.Time
}
