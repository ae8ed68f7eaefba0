package release

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// PublicKey verifies releases.
type PublicKey ed25519.PublicKey

// PrivateKey signs releases.
type PrivateKey ed25519.PrivateKey

const keyPrefix = "ed25519:"

// ParsePublicKey parses the text of PublicKey.String.
func ParsePublicKey(text string) (PublicKey, error) {
	encoded, ok := strings.CutPrefix(text, keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("write the public key as \"quantix release keygen\" printed it: ed25519:…")
	}
	return key, nil
}

// String returns the key as in agent.yaml.
func (k PublicKey) String() string { return keyPrefix + base64.StdEncoding.EncodeToString(k) }

// ID returns a short name of the key.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k)
	return hex.EncodeToString(sum[:8])
}

// Public returns the public key of a private key.
func (k PrivateKey) Public() PublicKey {
	return PublicKey(slices.Clone(k[ed25519.PrivateKeySize-ed25519.PublicKeySize:]))
}

const keyFileType = "PRIVATE KEY"

// NewKey returns a new key, and the content of its file.
func NewKey() (PrivateKey, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return PrivateKey(key), pem.EncodeToMemory(&pem.Block{Type: keyFileType, Bytes: der}), nil
}

// ParsePrivateKey reads the content of a key's file. The error never contains the key.
func ParsePrivateKey(file []byte) (PrivateKey, error) {
	block, _ := pem.Decode(file)
	if block == nil || block.Type != keyFileType {
		return nil, errors.New("the file contains no private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if signer, ok := key.(ed25519.PrivateKey); err == nil && ok {
		return PrivateKey(signer), nil
	}
	return nil, errors.New("the file contains no ed25519 key")
}

// Sign reads a program to its end and returns its signed manifest.
func Sign(key PrivateKey, program io.Reader, version string, on Platform) (Manifest, error) {
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(program, MaxBytes+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("read the program: %w", err)
	}
	m := Manifest{Format: Format, Version: version, Platform: on, SizeBytes: n, SHA256: hex.EncodeToString(hash.Sum(nil)), KeyID: key.Public().ID()}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	m.Signature = ed25519.Sign(ed25519.PrivateKey(key), m.signedText())
	return m, nil
}

// ErrUntrustedKey is the error of Verify for a signature by none of the keys.
var ErrUntrustedKey = errors.New("no trusted key has signed the release")

// Verify checks that one of the keys has signed the manifest.
func (m Manifest) Verify(keys []PublicKey) error {
	if err := m.check(); err != nil {
		return err
	}
	for _, k := range keys {
		if k.ID() != m.KeyID {
			continue
		}
		if !ed25519.Verify(ed25519.PublicKey(k), m.signedText(), m.Signature) {
			return errors.New("the signature does not match the release: the release or its signature was changed")
		}
		return nil
	}
	return ErrUntrustedKey
}

// MaxManifestBytes is the maximum size of a signature file.
const MaxManifestBytes = 4 << 10

// ParseManifest reads the content of a signature file. It does not verify the signature.
func ParseManifest(file []byte) (m Manifest, err error) {
	if len(file) > MaxManifestBytes {
		return m, fmt.Errorf("the signature file is larger than %d bytes", MaxManifestBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	if err := decoder.Decode(&m); err != nil {
		return m, errors.New("the signature file cannot be read")
	}
	return m, m.check()
}

// Encode returns the content of the signature file.
func (m Manifest) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// CheckProgram reads a program to its end and compares it with the manifest.
func (m Manifest) CheckProgram(program io.Reader) error {
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(program, m.SizeBytes+1))
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	if n != m.SizeBytes || hex.EncodeToString(hash.Sum(nil)) != m.SHA256 {
		return errors.New("the program differs from the signed one")
	}
	return nil
}
