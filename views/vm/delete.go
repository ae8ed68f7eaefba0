package vm

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// DeletePage asks what is to go.
type DeletePage struct {
	VM     fleet.VMView
	Pools  map[fleet.PoolID]string
	Errors kit.Errors
}
