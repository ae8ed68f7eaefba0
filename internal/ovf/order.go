package ovf

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// controller is a controller of the descriptor's machine.
type controller struct {
	kind    string // pvscsi, ide, sata …
	bus     int    // its resource type; controllers of one type are counted by their addresses
	address int
	at      int // place among the descriptor's controllers
}

// placedDisk is a disk with what decides its place among the disks.
type placedDisk struct {
	fleet.ApplianceDisk
	on   controller
	unit int // AddressOnParent
}

// ordered returns the disks as firmware counts them: by controller address, then by unit. The descriptor's own order decides between
// controllers of different types, and for what has no address.
func ordered(disks []placedDisk) (out []fleet.ApplianceDisk) {
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

// address reads a controller's or a unit's number. What has none comes last.
func address(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return math.MaxInt
	}
	return n
}
