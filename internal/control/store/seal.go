package store

import (
	"encoding/json"

	"quantix/internal/auth"
	"quantix/internal/fleet"
)

// SealJSON encrypts v with the vault's key, and returns the name of the key. what names v in errors: "first-boot data".
// OpenJSON needs the same label.
func SealJSON(vault auth.Vault, label, what string, v any) (key string, sealed []byte, err error) {
	if key = vault.KeyID(); key == "" {
		return "", nil, fleet.Errorf(fleet.Conflict, "This portal has no key to encrypt %s. Set secretsKey in the portal's settings.", what)
	}
	data, err := json.Marshal(v)
	if err == nil {
		sealed, err = vault.Seal(label, data)
	}
	return key, sealed, err
}

// OpenJSON decrypts the result of SealJSON.
func OpenJSON(vault auth.Vault, label, what, key string, sealed []byte, into any) error {
	data, ok := vault.Unseal(label, sealed)
	if !ok {
		return fleet.Errorf(fleet.Conflict, "The portal cannot decrypt this %s: a portal with another key (%s) encrypted it. Give all portals the same secretsKey, or enter the data again.", what, key)
	}
	return json.Unmarshal(data, into)
}
