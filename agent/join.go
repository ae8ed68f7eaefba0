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

// Join makes the key, asks the portal for a certificate and keeps both. A directory that holds an identity already is
// refused: the key of a host is never overwritten.
func Join(ctx context.Context, o JoinOptions) error {
	id, err := lockDir(o.DataDir)
	if err != nil {
		return err
	}
	defer id.Close()
	if _, err := os.Stat(filepath.Join(o.DataDir, identityFile)); err == nil {
		return fmt.Errorf("%s belongs to a host that has joined already: remove that directory to join anew", o.DataDir)
	}
	if err := id.makeKey(); err != nil {
		return fmt.Errorf("make the host's key: %w", err)
	}
	csr, err := id.csr(o.Name)
	if err != nil {
		return err
	}
	answer, err := wire.Join(ctx, o.Portal, o.Token, wire.JoinRequest{Name: o.Name, HostUUID: o.HostUUID, CSR: csr})
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("the portal refused: %s", refused.Detail)
	case err != nil:
		return fmt.Errorf("join %s: %w", o.Portal, err)
	}
	return id.replace(savedIdentity{Portal: o.Portal, HostID: answer.HostID, Certificate: answer.Certificate})
}

// Joined reports whether the data directory holds an identity.
func Joined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, identityFile))
	return err == nil
}
