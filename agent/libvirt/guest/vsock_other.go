//go:build !linux

package guest

import (
	"context"
	"errors"
	"os"
)

func dialVSOCK(context.Context, uint32, uint32) (*os.File, error) {
	return nil, errors.New("only Linux has vsocks to guests")
}
