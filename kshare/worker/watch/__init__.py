"""What a worker tells others about itself: counts, observers, health, status, announcements, log fields."""
