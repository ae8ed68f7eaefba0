package hypervisor

import (
	"context"
	"fmt"
	"strings"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// MigrateVM is the order to send a VM that is off to another host.
type MigrateVM struct {
	VM    fleet.VM
	Pools []fleet.Pool
	Order fleet.MigrateOrder
	// Sent returns the stamp that Sending got for the disk's file in an earlier attempt of this order; empty: it was
	// not sent.
	Sent func(disk fleet.LeavingDisk) (stamp string)
	// Sending receives the stamp of a disk's file before any data is sent. Its error ends the order.
	Sending func(disk fleet.LeavingDisk, stamp string) error
	// Send sends a disk and returns once the other host has all of it: at once if it received it in an earlier call.
	Send func(ctx context.Context, disk fleet.LeavingDisk, pieces transfer.Pieces, size int64) error
	// Arrived returns once the portal knows that the other host has all disks.
	Arrived  func(ctx context.Context) error
	Progress Progress
}

// NotMigratable refuses to send a VM; shared by both backends.
func NotMigratable(vm, why string, args ...any) error {
	return fleet.Errorf(fleet.Conflict, "%s does not go to another host: %s", vm, strings.TrimSpace(fmt.Sprintf(why, args...)))
}

// LeftMeanwhile refuses to remove a VM that changed while it was sent.
func LeftMeanwhile(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody started %s, or changed it, while it was being sent. It is where it was; try again.", vm)
}
