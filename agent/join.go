package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"quantix/internal/wire"
)

// JoinOptions say which portal this machine joins as which host.
type JoinOptions struct {
	Portal   string // "https://host:8444"
	Token    string // from Hosts, Add host
	Name     string // the host's name in Quantix
	HostUUID string // of the machine
	DataDir  string // where key and certificate are kept
}

// Join makes the key, asks the portal for a certificate, keeps both, and returns the host's name. Where the directory holds
// an identity already, its key stays, and the portal is told which host it was: it gives only that one back.
func Join(ctx context.Context, o JoinOptions) (name string, err error) {
	id, err := lockDir(o.DataDir)
	if err != nil {
		return "", err
	}
	defer id.Close()
	if err := id.read(); err != nil && !errors.Is(err, ErrNotJoined) {
		return "", fmt.Errorf("%w; to join with a new identity, move %s away", err, o.DataDir)
	}
	if err := id.makeKey(); err != nil {
		return "", fmt.Errorf("make the host's key: %w", err)
	}
	csr, err := id.csr(o.Name)
	if err != nil {
		return "", err
	}
	answer, err := wire.Join(ctx, o.Portal, o.Token, wire.JoinRequest{Name: o.Name, HostUUID: o.HostUUID, HostID: id.HostID(), CSR: csr})
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return "", fmt.Errorf("the portal refused: %s", refused.Detail)
	case err != nil:
		return "", fmt.Errorf("join %s: %w", o.Portal, err)
	}
	return answer.Name, id.replace(savedIdentity{Portal: o.Portal, HostID: answer.HostID, Certificate: answer.Certificate})
}

// Joined reports whether the data directory holds an identity.
func Joined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, identityFile))
	return err == nil
}
