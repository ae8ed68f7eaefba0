//go:build !linux

package link

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"quantix/internal/fleet"
)

var errNoKernel = errors.New("network devices are created on Linux only")

type none struct{}

func newKernel() kernel { return none{} }

func (none) read(fleet.Network, bool) (hostState, error) { return hostState{}, errNoKernel }
func (none) do(step) error                               { return errNoKernel }
func (none) carrier(string) []string                     { return nil }
func (none) functions(string) fleet.NetworkNICs          { return fleet.NetworkNICs{} }
func (none) openSwitch(context.Context, string) error    { return errNoKernel }

func detach(*exec.Cmd) {}

func lockFor(string, time.Duration) (*os.File, error) { return nil, errNoKernel }

// Gaps returns nil, which means unknown.
func Gaps(context.Context) []fleet.NetworkGap { return nil }
