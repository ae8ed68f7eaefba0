package ovf

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// controller is a disk controller of the machine.
type controller struct {
	kind    string // resource type; controllers of one type are ordered by address
	bus     int    // resource type; controllers of one type are ordered by address
	address int
	at      int // index of the controller among the descriptor's controllers
}

// placedDisk is a disk with its controller and unit, which determine the order of disks.
type placedDisk struct {
	fleet.ApplianceDisk
	on   controller
	unit int // AddressOnParent
}

// sortInFirmwareOrder returns the disks in the firmware's order: by controller address, then by unit.
// Controllers of different types, and disks without an address, keep the descriptor's order.
func sortInFirmwareOrder(disks []placedDisk) (out []fleet.ApplianceDisk) {
	var buses []int
	for _, d := range disks {
		buses = append(buses, d.on.bus)
	}
	slices.SortStableFunc(disks, func(a, b placedDisk) int {
		return cmp.Or(
			cmp.Compare(slices.Index(buses, a.on.bus), slices.Index(buses, b.on.bus)),
			cmp.Compare(a.on.address, b.on.address), cmp.Compare(a.on.at, b.on.at), cmp.Compare(a.unit, b.unit),
		)
	})
	for _, d := range disks {
		out = append(out, d.ApplianceDisk)
	}
	return out
}

// parseAddress parses the number of a controller or unit. A missing or invalid number becomes the highest number, so
// that it sorts last.
func parseAddress(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return math.MaxInt
	}
	return n
}
