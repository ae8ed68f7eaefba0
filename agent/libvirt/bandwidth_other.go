//go:build !linux

package libvirt

import (
	"context"
	"errors"
)

func trafficControl(context.Context, string) (string, error) { return "", errors.ErrUnsupported }
