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

type noKernel struct{}

func newKernel() kernel { return noKernel{} }

func (noKernel) read(fleet.Network, bool) (hostState, error)    { return hostState{}, errNoKernel }
func (noKernel) runStep(step) error                             { return errNoKernel }
func (noKernel) routeDevices(string) []string                   { return nil }
func (noKernel) virtualFunctions(string) fleet.NetworkNICs      { return fleet.NetworkNICs{} }
func (noKernel) checkOpenVSwitch(context.Context, string) error { return errNoKernel }

func detachProcess(*exec.Cmd) {}

func lockDir(string, time.Duration) (*os.File, error) { return nil, errNoKernel }

// NetworkGaps returns nil, which means unknown.
func NetworkGaps(context.Context) []fleet.NetworkGap { return nil }
