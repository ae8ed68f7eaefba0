//go:build !linux

package network

import (
	"context"
	"errors"
)

// TrafficControl is available only on Linux.
func TrafficControl(context.Context, string) (string, error) { return "", errors.ErrUnsupported }
