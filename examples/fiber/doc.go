// Package fiber shows Redfence in front of fiber.
package fiber
